// A profile: a named set of signatures, e.g. all that flash_attn can request. Data, read from
// profiles/<name>.toml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel_key.h"
#include "plan/target.h"
#include "plan/variant.h"

namespace regard {

struct Profile {
  std::string name, doc;
  bool everything =
      false;  ///< every valid signature is allowed; the variants are what is built ahead of time
  std::vector<Variant> variants;      ///< one for each [[variants]] table
  std::vector<Signature> signatures;  ///< of all variants, without duplicates, in the order of the file
};

/// Strict: a schema error names file, line and the nearest valid word.
Result<Profile> parse_profile(std::string_view toml, std::string_view file_name);
std::vector<std::string_view> profile_names();
/// Unknown names are errors that name the nearest.
Result<const Profile*> find_profile(std::string_view name);
bool lets_through(const Profile&, const Signature&);

/// Every kernel that the profile needs on a target, without duplicates, sorted by text.
Result<std::vector<KernelKey>> keys_of_profile(const Profile&, const Target&);

}  // namespace regard
