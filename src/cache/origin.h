// Where an entry of the cache comes from. Its folder is the user's alone, so what it says of that holds.
#pragma once

#include <optional>
#include <span>

#include "base/public_key.h"

namespace regard {

struct Origin {
  bool compiled = false;            ///< here, by a process of this user's
  std::optional<PublicKey> signer;  ///< of what came from elsewhere, where it was signed
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// Of an entry that is not trusted.
inline constexpr const char* untrusted = "it was neither compiled here nor signed with a trusted key";

/// Where keys are trusted, what is executed was compiled here, or one of them has signed it.
bool is_trusted(const Origin&, std::span<const PublicKey> trusted);

}  // namespace regard
