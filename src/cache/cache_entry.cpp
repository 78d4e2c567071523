#include "cache/cache_entry.h"

#include <algorithm>

namespace regard {

bool is_trusted(const Origin& origin, std::span<const PublicKey> trusted) {
  if (trusted.empty() || origin.compiled) return true;
  return origin.signer && std::ranges::find(trusted, *origin.signer) != trusted.end();
}

}  // namespace regard
