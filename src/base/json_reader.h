// JSON as it is read: value by value, in time and memory that are linear in the text, and never deeper than a
// stack allows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace regard {

/// A value, or where a list or an object begins or ends.
struct JsonEvent {
  enum class Kind : std::uint8_t { null, flag, integer, real, text, list, object, end };
  Kind kind = Kind::null;
  int depth = 0;              ///< lists and objects around it
  std::string_view key = {};  ///< its name in the object around it
  bool flag = false;
  std::int64_t integer = 0;    ///< of integers below 2^63 only; larger ones are real
  double real = 0;             ///< of integers too
  std::string_view text = {};  ///< a text's value; a number's digits, those of an integer printed anew
};

/// Deeper ones are refused: nothing that Regard writes or takes is nested like that, and readers elsewhere
/// need a stack for it.
inline constexpr int most_json_depth = 64;

/// Gives each value of `text` to `receive`, whose error ends the reading and is the answer. Another error is
/// a sentence that begins with `what`.
Status read_json(std::string_view text, std::string_view what,
                 const std::function<Status(const JsonEvent&)>& receive);

}  // namespace regard
