#include "bundle/trusted_keys.h"

#include <string_view>

namespace regard {

Result<std::vector<PublicKey>> trusted_keys(const Settings& current) {
  std::vector<PublicKey> keys;
  for (const std::string_view hex : current.trusted_keys.items()) {
    const Result<PublicKey> key = parse_public_key(hex);
    if (!key) return invalid("REGARD_TRUSTED_KEYS: " + key.error().message);
    keys.push_back(*key);
  }
  return keys;
}

}  // namespace regard
