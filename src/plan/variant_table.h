// A [[variants]] table of a profile or a manifest: a list for each field of a signature, whose product is
// taken; and its opposite, an [[exclude]] table. Only the .cpp files that read such tables include this
// (toml++ is a heavy header).
#pragma once

#include "plan/strict_toml.h"
#include "plan/variant.h"

namespace regard {

/// The product of a table's lists; a field that the table omits has its default, not all its values.
/// Combinations that are meaningless on every target, such as the gradient of a bias that does not exist, are
/// not part of it. `stop` is polled; once it returns true, the result is incomplete.
Result<Variant> read_variant(const toml::table&, std::string_view file, int line, bool (*stop)() = nullptr);

/// The number of signatures of all tables in a file together, which is limited.
class SignatureCount {
 public:
  /// Adds those of another table; an error where there are too many.
  Status add(const Variant&, std::string_view file, int line);

 private:
  std::size_t count_ = 0;
};

/// The keys of such a table, including `recipes`.
std::span<const std::string_view> variant_keys();

/// The keys of an [[exclude]] table, which has no `recipes`.
Result<Exclusion> read_exclusion(const toml::table&, std::string_view file, int line);

}  // namespace regard
