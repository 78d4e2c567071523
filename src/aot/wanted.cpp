#include "aot/wanted.h"

#include <fmt/format.h>

#include <set>

namespace regard::aot {
namespace {

/// Evenly spread over a sorted list.
std::vector<std::string> sample_of(const std::vector<std::string>& kernels, std::size_t size) {
  if (size == 0 || kernels.size() <= size) return kernels;
  std::vector<std::string> sample;
  for (std::size_t i = 0; i < size; ++i) sample.push_back(kernels[i * kernels.size() / size]);
  return sample;
}

}  // namespace

Result<std::vector<std::string>> kernels_of(const Wanted& wanted, const ListKernels& list) {
  std::vector<std::string> kernels;
  for (const std::string& target : wanted.targets) {
    std::set<std::string> of_target;
    for (const std::string& profile : wanted.profiles) {
      Result<std::vector<std::string>> listed = list(target, profile);
      if (!listed) return listed;
      of_target.insert(listed->begin(), listed->end());
    }
    if (of_target.empty()) {
      return refused(
          fmt::format("target {} has no kernels of profile {}", target, fmt::join(wanted.profiles, ", ")));
    }
    for (std::string& kernel : sample_of({of_target.begin(), of_target.end()}, wanted.sample))
      kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace regard::aot
