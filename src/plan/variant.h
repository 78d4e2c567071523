// A variant: a set of signatures. Profiles and manifests are lists of variants.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "problem/fields.h"

namespace regard {

struct SignatureHash {
  std::size_t operator()(const Signature& signature) const { return hash(signature); }
};
using SignatureSet = std::unordered_set<Signature, SignatureHash>;

struct Variant {
  std::vector<Signature> signatures;
  std::vector<std::string> recipes;  ///< only plans of these recipes or kernels; empty: all
};

/// A small problem with this signature.
Problem example_of(const Signature&);

/// Excludes signatures that have one of the listed values in every listed field.
struct Exclusion {
  struct OfField {
    Field field;
    std::vector<Signature> values;  ///< only the field of each counts
  };
  std::vector<OfField> fields;

  bool holds_for(const Signature&) const;
};

}  // namespace regard
