// Kernels as numbers: a manifest can amount to a million of them, whose texts and keys would take gigabytes.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/kernel_key.h"

namespace regard {

/// The same number for the same key, whatever its target.
class KernelNumbers {
 public:
  std::uint64_t number_of(const KernelKey& key) {
    return join(algorithm(key.algorithm), signature(key.signature));
  }
  KernelKey key_of(std::uint64_t number, const std::string& target) const;

  /// The two halves of a number.
  std::uint32_t algorithm(const Algorithm&);
  std::uint32_t signature(const Signature&);
  static std::uint64_t join(std::uint32_t algorithm, std::uint32_t signature) {
    return std::uint64_t{algorithm} << 32 | signature;
  }

 private:
  struct Hash {
    std::size_t operator()(const Signature& signature) const { return hash(signature); }
  };

  std::vector<Algorithm> algorithms_;  // some hundreds
  std::unordered_map<Signature, std::uint32_t, Hash> signatures_;
  std::vector<const Signature*> in_order_;
};

}  // namespace regard
