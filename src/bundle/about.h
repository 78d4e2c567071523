// What a bundle says of itself, as JSON.
#pragma once

#include <string>
#include <string_view>

#include "bundle/bundle.h"

namespace regard::bundle {

/// The error says what cannot be written.
Result<std::string> print(const BundleAbout&);
/// Strict: exactly these members, each once.
Result<BundleAbout> parse_about(std::string_view json);

}  // namespace regard::bundle
