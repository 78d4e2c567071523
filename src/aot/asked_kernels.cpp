#include "aot/asked_kernels.h"

#include <algorithm>

namespace regard::aot {

void AskedKernels::take(std::uint64_t number, const Manifest::Binary& binary) {
  ask(number, binary.line);
  binaries_[number] = &binary;
}

std::size_t AskedKernels::count() {
  sort();
  std::size_t count = 0;
  for (std::size_t i = 0; i < asked_.size(); ++i)
    if (i == 0 || asked_[i].first != asked_[i - 1].first) ++count;
  return count;
}

std::vector<Selection::Kernel> AskedKernels::list(const KernelNumbers& numbers, const std::string& target,
                                                  bool (*stop)()) {
  sort();
  std::vector<Selection::Kernel> list;
  for (std::size_t i = 0; i < asked_.size() && !stop(); ++i) {
    const auto& [number, line] = asked_[i];
    if (i == 0 || number != asked_[i - 1].first) {
      Selection::Kernel& kernel = list.emplace_back();
      kernel.key = numbers.key_of(number, target);
      kernel.text = print(kernel.key);
      if (const auto binary = binaries_.find(number); binary != binaries_.end())
        kernel.binary = binary->second;
    }
    list.back().lines.insert(line);
  }
  std::ranges::sort(list, {}, &Selection::Kernel::text);
  return list;
}

void AskedKernels::sort() {
  std::ranges::sort(asked_);
  asked_.erase(std::unique(asked_.begin(), asked_.end()), asked_.end());
}

}  // namespace regard::aot
