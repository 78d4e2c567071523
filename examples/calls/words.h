// Words of problem text that both libraries write.
#pragma once

#include <cstdint>
#include <string>

namespace calls {

/// " name=value", whatever the locale says of decimal points.
std::string word(const char* name, std::int64_t value);
std::string word(const char* name, float value);

/// The mask of Composable Kernel's mask_enum (0 none, 1 top left, 2 bottom right) and its window, of which -1
/// is unbounded, and the first keys that stay visible left of the window.
std::string mask_words(int mask_type, std::int64_t left, std::int64_t right, std::int64_t sink_tokens = 0);

/// Refuses the ALiBi that Composable Kernel draws from the top left, where that is not the one from the
/// bottom right.
void require_alibi(int mask_type, bool square);

}  // namespace calls
