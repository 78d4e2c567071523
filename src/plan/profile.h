// A profile: a named set of signatures, e.g. all that flash_attn can ask for. Data, read from
// profiles/<name>.toml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel_key.h"
#include "plan/target.h"

namespace regard {

struct Profile {
  std::string name, doc;
  std::vector<Signature> signatures;  ///< expanded, without duplicates, in a fixed order
};

Result<Profile> parse_profile(std::string_view toml, std::string_view file_name);
const Result<std::vector<Profile>>& profiles();
/// Unknown names are errors that name the nearest.
Result<const Profile*> find_profile(std::string_view name);
bool lets_through(const Profile&, const Signature&);

/// Every kernel that the profile needs on a target, without duplicates, sorted by text.
Result<std::vector<KernelKey>> kernels_of(const Profile&, const Target&);

}  // namespace regard
