// Inside the command every failure is a regard::error; main turns it into a sentence and an exit code.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "regard/regard.hpp"

namespace regard::cli {

[[noreturn]] inline void fail_with(const std::string& sentence) {
  throw error(REGARD_INVALID, sentence);
}

/// The value of a result, or its error with the file or object prepended: "q.npy: it is truncated ...".
template <class T>
T value_of(Result<T> result, const std::string& what) {
  if (!result)
    throw error(static_cast<regard_status>(result.error().kind),
                printable(what) + ": " + result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace regard::cli
