#include "compile/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "plan/kernel.h"
#include "plan/sizes.h"

namespace regard {
namespace {

/// The number right before `words` in a line like "0 bytes stack frame, 8 bytes spill stores"; 0 if there is
/// none.
std::int64_t number_before(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return 0;
  std::size_t start = at;
  while (start > 0 && line[start - 1] >= '0' && line[start - 1] <= '9') --start;
  std::int64_t value = 0;
  std::from_chars(line.data() + start, line.data() + at, value);
  return value;
}

/// "Used 10 registers, used 1 barriers, 2048 bytes smem": here the number follows the verb.
std::int64_t number_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return 0;
  std::int64_t value = 0;
  std::from_chars(line.data() + at + words.size(), line.data() + line.size(), value);
  return value;
}

std::int64_t count(std::string_view text, std::string_view words) {
  std::int64_t found = 0;
  for (std::size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1))
    ++found;
  return found;
}

}  // namespace

Result<Resources> parse_ptxas_log(std::string_view log, std::string_view ptx) {
  Resources resources;
  resources.matrix = count(ptx, "wgmma.mma_async") + count(ptx, "mma.sync");
  int kernels = 0;
  for (const std::string_view line : split(log, "\n")) {
    if (line.find("Compiling entry function") != std::string_view::npos) ++kernels;
    if (line.find("bytes stack frame") != std::string_view::npos) {
      // Functions that are not inlined have their own lines: the worst one counts.
      resources.stack_bytes = std::max(resources.stack_bytes, number_before(line, " bytes stack frame"));
      resources.spill_store_bytes += number_before(line, " bytes spill stores");
      resources.spill_load_bytes += number_before(line, " bytes spill loads");
    }
    if (line.find("Used ") != std::string_view::npos) {
      resources.registers = number_after(line, "Used ");
      resources.barriers = number_after(line, "used ");
      resources.shared_bytes = number_before(line, " bytes smem");
    }
    if (line.find("(C75") != std::string_view::npos) resources.performance_warnings.emplace_back(line);
  }
  if (kernels != 1 || resources.registers == 0) {
    return fail(ErrorKind::internal, "the compiler's log reports on " + std::to_string(kernels) +
                                         " kernels, not on one with its registers");
  }
  return resources;
}

namespace {

/// The registers that a SIMD has for each lane of a wave.
std::int64_t registers_of_simd(const Target& target) {
  constexpr int simds = 4;  // of a multiprocessor, a compute unit, or a work group processor
  return target.registers / (simds * target.wave);
}

/// What a thread gets: all these GPUs give out registers in 64 parts.
std::int64_t given_registers(std::int64_t used, const Target& target) {
  constexpr std::int64_t parts = 64;
  const auto at_least_one = [](std::int64_t number) { return std::max<std::int64_t>(number, 1); };
  return round_up(at_least_one(used), at_least_one(registers_of_simd(target) / parts));
}

std::int64_t dynamic_shared_bytes(const KernelKey& key) {
  const Kernel* kernel = find_kernel(key.algorithm.kernel);
  return kernel == nullptr || kernel->dynamic_shared_bytes == nullptr ? 0 : kernel->dynamic_shared_bytes(key);
}

}  // namespace

std::int64_t waves_per_simd(std::int64_t registers, const Target& target) {
  return registers_of_simd(target) / given_registers(registers, target);
}

void warn_of_missing_instructions(Resources& used, const KernelKey& key) {
  const Kernel* kernel = find_kernel(key.algorithm.kernel);
  if (kernel == nullptr || used.matrix > 0) return;
  const auto needs = [&](Feature feature) {
    return std::ranges::find(kernel->features, feature) != kernel->features.end();
  };
  if (needs(Feature::wgmma) || (needs(Feature::matrix) && key.signature.dtype != DType::fp32))
    used.performance_warnings.emplace_back("has no matrix instruction");
}

Status fits(const Resources& used, const KernelKey& key, const Target& target) {
  const std::int64_t threads = key.algorithm.warps * target.wave,
                     registers = threads * given_registers(used.registers, target),
                     dynamic = dynamic_shared_bytes(key), shared = used.shared_bytes + dynamic;
  std::string why;
  if (registers > target.registers) {
    why = fmt::format("{} threads of {} registers need {}, and there are {}", threads, used.registers,
                      registers, target.registers);
  } else if (shared > target.shared_memory) {
    why = fmt::format("it declares {} bytes of shared memory and is launched with {} more, {} in all, of {}",
                      used.shared_bytes, dynamic, shared, target.shared_memory);
  } else {
    return {};
  }
  return fail(ErrorKind::no_kernel,
              fmt::format("kernel '{}' can never run on {}: {}", print(key), target.name, why));
}

}  // namespace regard
