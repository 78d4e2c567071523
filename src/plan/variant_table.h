// A [[variants]] table of a profile or a manifest: a list for each field of a signature, which multiply; and
// its opposite, an [[exclude]] table. Only the .cpp files that read such tables include this (toml++ is a
// heavy header).
#pragma once

#include "plan/strict_toml.h"
#include "plan/variant.h"

namespace regard {

/// The product of a table's lists; a field that the table leaves out has its default, not all its values.
/// Combinations that make no sense on any target, such as a gradient of a bias that is not there, are not
/// part of it.
Result<Variant> read_variant(const toml::table&, std::string_view file, int line);

/// How many signatures the tables of a file make together, which is bounded.
class SignatureCount {
 public:
  /// Those of one table more; an error where they become too many.
  Status add(const Variant&, std::string_view file, int line);

 private:
  std::size_t count_ = 0;
};

/// The keys of such a table, `recipes` among them.
std::span<const std::string_view> variant_keys();

/// Of an [[exclude]] table, which has no `recipes`.
Result<Exclusion> read_exclusion(const toml::table&, std::string_view file, int line);

}  // namespace regard
