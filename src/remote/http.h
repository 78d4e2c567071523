// Bytes by URL over HTTP and HTTPS. It knows nothing about their meaning.
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

/// Whether it can be requested: http or https, a host, no password, nothing after the path.
Status check_url(std::string_view url);

/// The resource; nothing where the server has none (404). The whole request, including connecting and
/// redirects, takes at most `limit`. Errors say what the server did, as what follows its name.
Result<std::optional<std::vector<std::byte>>> get(const std::string& url, std::uint64_t most_bytes,
                                                  std::chrono::seconds limit);

/// Stores the body at the URL.
Status put(const std::string& url, std::span<const std::byte> body, std::chrono::seconds limit);

}  // namespace regard::remote
