// What the CPU reports about itself, limited to what the operating system saves. No file is read: descriptors
// may be used up, and /proc may not exist.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/process_lifetime.h"
#include "device/cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <fmt/format.h>
#include <sys/auxv.h>
#endif

namespace regard::cpu {
namespace {

#if defined(__x86_64__)

enum Register : std::uint8_t { eax, ebx, ecx, edx };
using Answer = std::array<std::uint32_t, 4>;

/// Zeros where the CPU has no such leaf.
Answer ask(std::uint32_t leaf, std::uint32_t subleaf = 0) {
  Answer answer{};
  __get_cpuid_count(leaf, subleaf, &answer[eax], &answer[ebx], &answer[ecx], &answer[edx]);
  return answer;
}

/// Bits of the registers that the operating system saves for each thread (XCR0).
constexpr std::uint64_t always = 0, vectors = 0x6, vectors_512 = 0xE6, tiles = 0x60000;

std::uint64_t kept_by_system() {
  constexpr std::uint32_t has_xgetbv = 1u << 27;
  if ((ask(1)[ecx] & has_xgetbv) == 0) return 0;
  std::uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

struct Flag {
  std::string_view name;  ///< as in /proc/cpuinfo
  std::uint32_t leaf, subleaf;
  Register where;
  int bit;
  std::uint64_t kept;  ///< register state that the system must save for programs to use it
};

/// Those that targets ask for, and the levels of x86-64 that -march names.
constexpr Flag flags[] = {
    {"sse2", 1, 0, edx, 26, always},
    {"ssse3", 1, 0, ecx, 9, always},
    {"sse4_1", 1, 0, ecx, 19, always},
    {"sse4_2", 1, 0, ecx, 20, always},
    {"movbe", 1, 0, ecx, 22, always},
    {"popcnt", 1, 0, ecx, 23, always},
    {"fma", 1, 0, ecx, 12, vectors},
    {"avx", 1, 0, ecx, 28, vectors},
    {"f16c", 1, 0, ecx, 29, vectors},
    {"bmi1", 7, 0, ebx, 3, always},
    {"avx2", 7, 0, ebx, 5, vectors},
    {"bmi2", 7, 0, ebx, 8, always},
    {"avx512f", 7, 0, ebx, 16, vectors_512},
    {"avx512dq", 7, 0, ebx, 17, vectors_512},
    {"avx512cd", 7, 0, ebx, 28, vectors_512},
    {"avx512bw", 7, 0, ebx, 30, vectors_512},
    {"avx512vl", 7, 0, ebx, 31, vectors_512},
    {"avx512vbmi", 7, 0, ecx, 1, vectors_512},
    {"avx512_vnni", 7, 0, ecx, 11, vectors_512},
    {"amx_bf16", 7, 0, edx, 22, tiles},
    {"avx512_fp16", 7, 0, edx, 23, vectors_512},
    {"amx_tile", 7, 0, edx, 24, tiles},
    {"amx_int8", 7, 0, edx, 25, tiles},
    {"avx512_bf16", 7, 1, eax, 5, vectors_512},
    {"amx_fp16", 7, 1, eax, 21, tiles},
    {"abm", 0x80000001, 0, ecx, 5, always},
};

std::vector<std::string> read_flags() {
  const std::uint64_t kept = kept_by_system();
  std::vector<std::string> names;
  for (const Flag& flag : flags) {
    const bool there = (ask(flag.leaf, flag.subleaf)[flag.where] >> flag.bit & 1) != 0;
    if (there && (kept & flag.kept) == flag.kept) names.emplace_back(flag.name);
  }
  return names;
}

/// The characters that registers hold.
std::string text_of(std::initializer_list<std::uint32_t> registers) {
  std::string text;
  for (const std::uint32_t one : registers) {
    char letters[sizeof one];
    std::memcpy(letters, &one, sizeof one);
    text.append(letters, sizeof letters);
  }
  return text;
}

std::string read_vendor() {
  const Answer answer = ask(0);
  return text_of({answer[ebx], answer[edx], answer[ecx]});
}

std::string read_model() {
  std::string text;
  for (const std::uint32_t leaf : {0x80000002u, 0x80000003u, 0x80000004u}) {
    const Answer answer = ask(leaf);
    text += text_of({answer[eax], answer[ebx], answer[ecx], answer[edx]});
  }
  text.resize(std::strlen(text.c_str()));
  const std::size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, last + 1 - first);
}

#elif defined(__aarch64__)

struct Flag {
  std::string_view name;  ///< as in /proc/cpuinfo
  unsigned long vector;   ///< where the operating system reports it
  int bit;
};

constexpr Flag flags[] = {
    {"asimd", AT_HWCAP, 1}, {"asimdhp", AT_HWCAP, 10}, {"sve", AT_HWCAP, 22},   {"asimdfhm", AT_HWCAP, 23},
    {"sve2", AT_HWCAP2, 1}, {"i8mm", AT_HWCAP2, 13},   {"bf16", AT_HWCAP2, 14},
};

std::vector<std::string> read_flags() {
  std::vector<std::string> names;
  for (const Flag& flag : flags)
    if ((getauxval(flag.vector) >> flag.bit & 1) != 0) names.emplace_back(flag.name);
  return names;
}

/// Who made this core, and which one it is; 0 where the operating system does not let programs read it.
struct Core {
  unsigned implementer = 0, part = 0;
};
Core read_core() {
  constexpr int may_read_registers = 11;  // "cpuid" in /proc/cpuinfo
  if ((getauxval(AT_HWCAP) >> may_read_registers & 1) == 0) return {};
  std::uint64_t midr;
  __asm__("mrs %0, midr_el1" : "=r"(midr));
  return {.implementer = static_cast<unsigned>(midr >> 24 & 0xff),
          .part = static_cast<unsigned>(midr >> 4 & 0xfff)};
}

std::string read_vendor() {
  const Core core = read_core();
  return core.implementer == 0 ? "" : fmt::format("0x{:02x}", core.implementer);
}

struct Model {
  unsigned implementer, part;
  std::string_view name;
};
constexpr Model models[] = {
    {0x41, 0xd03, "Arm Cortex-A53"},  {0x41, 0xd07, "Arm Cortex-A57"},  {0x41, 0xd08, "Arm Cortex-A72"},
    {0x41, 0xd0b, "Arm Cortex-A76"},  {0x41, 0xd0c, "Arm Neoverse N1"}, {0x41, 0xd40, "Arm Neoverse V1"},
    {0x41, 0xd49, "Arm Neoverse N2"}, {0x41, 0xd4f, "Arm Neoverse V2"}, {0x41, 0xd83, "Arm Neoverse V3AE"},
    {0x41, 0xd84, "Arm Neoverse V3"}, {0x41, 0xd85, "Arm Cortex-X925"}, {0x41, 0xd87, "Arm Cortex-A725"},
    {0x41, 0xd8e, "Arm Neoverse N3"}, {0x46, 0x001, "Fujitsu A64FX"},   {0x48, 0xd01, "HiSilicon TSV110"},
    {0x4e, 0x004, "NVIDIA Carmel"},   {0x51, 0x001, "Qualcomm Oryon"},  {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1A"},
};

std::string read_model() {
  const Core core = read_core();
  for (const Model& model : models)
    if (model.implementer == core.implementer && model.part == core.part) return std::string(model.name);
  if (core.implementer == 0 && core.part == 0) return "";
  return fmt::format("Arm, implementer 0x{:02x}, part 0x{:03x}", core.implementer, core.part);
}

#else
#error "read this processor's flags here"
#endif

}  // namespace

std::span<const std::string> cpu_flags() {
  return process_lifetime<read_flags>();
}

bool can_have_flag(std::string_view name) {
  return std::ranges::find(flags, name, &Flag::name) != std::end(flags);
}

std::string_view cpu_vendor() {
  return process_lifetime<read_vendor>();
}

std::string_view cpu_model() {
  return process_lifetime<read_model>();
}

}  // namespace regard::cpu
