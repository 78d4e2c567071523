// The words of each enumeration, derived from the lists in problem.h.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "problem/problem.h"

namespace regard {

struct WordInfo {
  std::string_view word, doc;
};

/// The words of an enumeration, in the order of its enumerators.
template <class Enum>
std::span<const WordInfo> words_of();

struct Alias {
  std::string_view alias, word;
};
/// Other libraries' names of dtypes, accepted wherever a dtype is read.
std::span<const Alias> dtype_aliases();

/// The enumerator of a word; dtypes also have aliases such as "half" or "e4m3".
template <class Enum>
std::optional<Enum> from_word(std::string_view word);

}  // namespace regard
