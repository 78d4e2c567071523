// Bytes by URL over HTTP and HTTPS. It knows nothing of what they mean.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace regard::remote {

/// Whether it can be asked: http or https, a host, no password, nothing behind the path.
Status check_url(std::string_view url);

/// What is there; nothing where the server has none (404). All of it, connecting and redirects too, takes
/// `limit` at most. Errors say what the server did, as what follows its name.
Result<std::optional<std::vector<std::byte>>> get(const std::string& url, std::uint64_t most_bytes,
                                                  std::chrono::seconds limit);

/// Puts it there.
Status put(const std::string& url, std::span<const std::byte> body, std::chrono::seconds limit);

}  // namespace regard::remote
