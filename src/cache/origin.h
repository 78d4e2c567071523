// Where an entry of the cache comes from. Only the user can write to its folder, so the record can be relied
// on.
#pragma once

#include <optional>
#include <span>

#include "base/public_key.h"

namespace regard {

struct Origin {
  bool compiled = false;            ///< here, by a process of this user
  std::optional<PublicKey> signer;  ///< of an entry from elsewhere, if it was signed
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// The reason why an entry is not trusted.
inline constexpr const char* untrusted = "it was neither compiled here nor signed with a trusted key";

/// If trusted keys are set, an entry is trusted if it was compiled here or signed with one of them.
bool is_trusted(const Origin&, std::span<const PublicKey> trusted);

}  // namespace regard
