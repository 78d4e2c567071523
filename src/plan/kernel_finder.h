// Finds every kernel that plans for signatures can choose, whatever the shape: on one target after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/kernel_numbers.h"
#include "plan/target.h"
#include "plan/variant.h"

namespace regard {

struct Kernel;

class KernelFinder {
 public:
  /// The numbers must outlive the finder.
  KernelFinder(std::span<const Variant>, KernelNumbers&);

  struct Needed {
    std::vector<std::uint64_t> numbers;       ///< of the kernels, each once
    std::size_t unserved = 0;                 ///< signatures that no kernel of the target accepts
    std::optional<Signature> first_unserved;  ///< the first of them
  };
  /// `stop` is polled; once it returns true, the result is incomplete.
  Needed on(const Target&, bool (*stop)() = nullptr);

 private:
  struct Numbered;
  /// The numbers of a signature as kernels depend on it.
  using Canonical = std::vector<std::pair<Signature (*)(const Signature&), std::uint32_t>>;

  /// Signatures that are equivalent for all plans, so that the first one represents all.
  struct SignatureClass {
    Signature first;
    std::size_t count = 0;
    std::vector<Canonical> canonical = {};  ///< of each of its examples
  };
  struct OfVariant {
    std::vector<std::string> recipes;
    std::vector<SignatureClass> classes = {};
  };

  std::vector<Numbered> candidates_on(const Target&, Pass, const std::vector<std::string>& recipes);
  void find(SignatureClass&, const Target&, const std::vector<Numbered>&, std::vector<std::uint64_t>& found);
  /// The kernel that writes new tokens in front of forward.
  void find_append(const Signature& forward, const Target&, std::vector<std::uint64_t>& found);
  std::uint32_t number_of(const Problem& example, const Kernel&, Canonical& known);

  KernelNumbers& numbers_;
  std::vector<OfVariant> variants_;
};

/// Whether some plan on its target uses this kernel.
bool is_needed_by_some_plan(const KernelKey&, const Target&);

}  // namespace regard
