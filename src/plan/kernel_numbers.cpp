#include "plan/kernel_numbers.h"

#include <algorithm>

namespace regard {

std::uint32_t KernelNumbers::algorithm(const Algorithm& algorithm) {
  const auto it = std::ranges::find(algorithms_, algorithm);
  const auto number = static_cast<std::uint32_t>(it - algorithms_.begin());
  if (it == algorithms_.end()) algorithms_.push_back(algorithm);
  return number;
}

std::uint32_t KernelNumbers::signature(const Signature& signature) {
  const auto [it, is_new] = signatures_.try_emplace(signature, static_cast<std::uint32_t>(in_order_.size()));
  if (is_new) in_order_.push_back(&it->first);
  return it->second;
}

KernelKey KernelNumbers::key_of(std::uint64_t number, const std::string& target) const {
  return {*in_order_[static_cast<std::uint32_t>(number)], algorithms_[number >> 32], target};
}

}  // namespace regard
