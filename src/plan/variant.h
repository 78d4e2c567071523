// A variant: signatures that somebody has a use for, of which profiles and manifests are lists, and the
// kernels that they need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "plan/kernel_key.h"
#include "plan/kernel_numbers.h"
#include "plan/target.h"
#include "problem/fields.h"

namespace regard {

struct SignatureHash {
  std::size_t operator()(const Signature& signature) const { return hash(signature); }
};
using SignatureSet = std::unordered_set<Signature, SignatureHash>;

struct Variant {
  std::vector<Signature> signatures;
  std::vector<std::string> recipes;  ///< only plans of these recipes or kernels; empty: of all
};

/// A small problem with this signature.
Problem example_of(const Signature&);

struct NeededKernels {
  std::vector<std::uint64_t> numbers;       ///< each once, in no order that means anything
  std::size_t unserved = 0;                 ///< signatures that no kernel of the target takes
  std::optional<Signature> first_unserved;  ///< the first of them
};

/// Every kernel that plans for these signatures, whatever the shape, may choose on a target.
/// `stop`: asked now and then; once it is true, what is given is not all of them.
NeededKernels kernels_of(std::span<const Variant>, const Target&, KernelNumbers&, bool (*stop)() = nullptr);

/// Whether some plan on its target asks for this kernel.
bool is_needed_by_some_plan(const KernelKey&, const Target&);

/// Leaves out a signature that has one of the listed values in every listed field.
struct Exclusion {
  struct OfField {
    Field field;
    std::vector<Signature> values;  ///< of each, only the field counts
  };
  std::vector<OfField> fields;

  bool holds_for(const Signature&) const;
};

}  // namespace regard
