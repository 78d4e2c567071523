// Errors are values: a function that can fail returns Result<T>, and the error is one sentence that a user
// can act on.
#pragma once

#include <new>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace regard {

/// The kind of failure. The C ABI's `regard_status` has the same values (checked by a test).
enum class ErrorKind : int {
  invalid = 1,      ///< the caller's input is wrong: text, JSON, tensor, setting, file
  refused = 2,      ///< the input is valid, but nothing here solves it; the message says what would
  no_kernel = 3,    ///< a plan exists, but no kernel was found; the message lists where it was searched
  no_memory = 4,    ///< memory, files or processes ran out: the next try may succeed
  internal = 5,     ///< a defect of Regard
  interrupted = 6,  ///< the caller asked for the call to end early
};

/// Results copy it where nothing may be thrown; without memory for the message, the copy says just that.
struct Error {
  ErrorKind kind;
  std::string message;  ///< one sentence: what was wrong and what would work

  Error(ErrorKind kind, std::string message) noexcept : kind(kind), message(std::move(message)) {}
  Error(Error&&) noexcept = default;
  Error& operator=(Error&&) noexcept = default;
  Error(const Error& other) noexcept : kind(other.kind) {
    try {
      message = other.message;
    } catch (const std::bad_alloc&) {
      kind = ErrorKind::no_memory;
      message = "out of memory";  // short enough to need no allocation
    }
  }
  Error& operator=(const Error& other) noexcept { return *this = Error(other); }
  ~Error() = default;
};

template <class T>
using Result = tl::expected<T, Error>;

using Status = tl::expected<void, Error>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}
inline tl::unexpected<Error> invalid(std::string message) {
  return fail(ErrorKind::invalid, std::move(message));
}
inline tl::unexpected<Error> refused(std::string message) {
  return fail(ErrorKind::refused, std::move(message));
}

template <class T>
bool is_interrupted(const Result<T>& result) {
  return !result && result.error().kind == ErrorKind::interrupted;
}

/// Whether it failed for lack of something that may be available at the next try (or was interrupted), so
/// that the result must not be remembered.
template <class T>
bool is_scarce(const Result<T>& result) {
  return (!result && result.error().kind == ErrorKind::no_memory) || is_interrupted(result);
}

/// Whether this errno means that memory, files, processes or disk ran out, which is temporary.
bool is_scarce(int error);

/// The same where the loader, a compiler or another program reported it in words.
bool says_scarce(std::string_view text);

/// `no_memory` where what failed with this errno may succeed at the next try, else `otherwise`.
inline ErrorKind kind_of(int error, ErrorKind otherwise) {
  return is_scarce(error) ? ErrorKind::no_memory : otherwise;
}

}  // namespace regard
