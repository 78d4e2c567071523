// What a bundle says about itself, as JSON, and the words for what happens to a kernel that it does not
// contain.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bundle/bundle.h"

namespace regard {

// X(enumerator, "word", "what it means"): docs/build.md is generated from them.
#define REGARD_UNDECLARED(X)                                                                             \
  X(jit, "jit", "the kernel is compiled on demand")                                                      \
  X(error, "error", "the call is refused, with the line that would add the kernel")                      \
  X(generic, "portable",                                                                                 \
    "for a CPU target the slower kernel that takes everything answers; GPUs have none, and the call is " \
    "refused")

#define REGARD_ENUMERATOR(name, word, doc) name,
enum class Undeclared : std::uint8_t { REGARD_UNDECLARED(REGARD_ENUMERATOR) };
#undef REGARD_ENUMERATOR
std::string_view word(Undeclared);

}  // namespace regard

namespace regard::bundle {

/// The error says what cannot be written.
Result<std::string> print(const BundleAbout&);
/// Strict: exactly these members, each once; only `tuning` can be absent.
Result<BundleAbout> parse_about(std::string_view json);

}  // namespace regard::bundle
