// Which names a function's text may have, and which have a meaning already.
#pragma once

#include <optional>
#include <string_view>

#include "function/operation.h"

namespace regard::function {

constexpr std::string_view word_of_true = "true", word_of_false = "false", word_of_infinity = "inf";

bool begins_name(char c);
bool continues_name(char c);

/// n0, f3: what the numbers that a caller gives at run time are called, of int32 and fp32.
struct NumberName {
  int index;
  Type type;
};
std::optional<NumberName> number_name(std::string_view name);

/// Whether a name is that of a variable, a function, a number or a constant, so that nothing else has it.
bool has_meaning(std::string_view name);

}  // namespace regard::function
