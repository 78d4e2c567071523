#include "emulator/hip/lds_report.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdio>

namespace emulator::hip {
namespace {

/// "kernel.hip:12 < kernel.hip:30", by binutils from the kernel's shared object.
std::string source_of(const void* place) {
  Dl_info object{};
  if (dladdr(place, &object) == 0) return "?";
  const auto offset =
      reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(object.dli_fbase);
  // The address is that of the instruction after the call.
  FILE* const lines =
      popen(fmt::format("addr2line -i -s -e '{}' {:#x} 2>&1", object.dli_fname, offset - 1).c_str(), "r");
  if (lines == nullptr) return "?";
  std::string all;
  std::array<char, 256> line;
  while (std::fgets(line.data(), line.size(), lines) != nullptr) {
    std::string_view text = line.data();
    text = text.substr(0, text.find_first_of("\n ("));
    if (text.starts_with("language.h")) continue;
    all += fmt::format("{}{}", all.empty() ? "" : " < ", text);
  }
  pclose(lines);
  return all;
}

}  // namespace

std::string lds_report(const std::map<const void*, LdsCount>& counts) {
  std::string report;
  for (const auto& [place, count] : counts)
    report += fmt::format("{} {} instructions={} clocks={} least={} worst={} at {}\n",
                          count.use == LdsUse::write ? "write" : "read", count.bytes, count.instructions,
                          count.clocks, count.least, count.worst, source_of(place));
  return report;
}

}  // namespace emulator::hip
