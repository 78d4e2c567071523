// The value of REGARD_SAVE_CALLS: where calls are saved, which ones, and how many.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace regard {

struct SaveCalls {
  enum class When : std::uint8_t {
    nan,       ///< an output has a NaN
    error,     ///< the call failed
    mismatch,  ///< an output is not what the fp64 oracle computes
    first,     ///< the first `number` calls
    every      ///< the first call, and each `number`-th after it
  };

  SaveCalls(const char*) {}  // NOLINT: the default in a table, which is empty
  bool empty() const { return folder.empty(); }

  std::string text, folder;
  When when = When::every;
  std::int64_t number = 1;
  std::int64_t calls = 100, bytes = std::int64_t{4} << 30;  ///< bounds of a process
};

/// "nan", "error", "mismatch", "first" or "every".
std::string_view word(SaveCalls::When);

/// FOLDER[,when=nan|error|mismatch|first:N|every:N][,calls=N][,bytes=N]. The error is what follows the
/// setting's name and value.
Result<SaveCalls> parse_save_calls(std::string_view text);

}  // namespace regard
