// Words of problem text that both libraries write.
#pragma once

#include <cstdint>
#include <string>

namespace calls {

/// " name=value", whatever the locale's decimal point is.
std::string word(const char* name, std::int64_t value);
std::string word(const char* name, float value);

/// The mask for a value of Composable Kernel's mask_enum (0 none, 1 top left, 2 bottom right) and its window
/// (-1 is unbounded), with the first keys that stay visible left of the window.
std::string mask_words(int mask_type, std::int64_t left, std::int64_t right, std::int64_t sink_tokens = 0);

/// Refuses Composable Kernel's top-left ALiBi unless it equals bottom-right ALiBi.
void require_alibi(int mask_type, bool square);

}  // namespace calls
