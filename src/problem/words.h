// The words of each enumeration, derived from the lists in problem.h.
#pragma once

#include <cstddef>
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

/// In a source file: words_of of an enumeration that a list X(enumerator, "word", "documentation") declares.
#define REGARD_WORD_INFO(name, word, doc) ::regard::WordInfo{word, doc},
#define REGARD_WORDS_OF(Type, LIST)                                         \
  template <>                                                               \
  std::span<const ::regard::WordInfo> words_of<Type>() {                    \
    static constexpr ::regard::WordInfo table[] = {LIST(REGARD_WORD_INFO)}; \
    return table;                                                           \
  }

/// "?" for a number that is not an enumerator.
template <class Enum>
std::string_view word_in_list(Enum value) {
  const std::span<const WordInfo> words = words_of<Enum>();
  const auto index = static_cast<std::size_t>(value);
  return index < words.size() ? words[index].word : "?";
}

/// The enumerator of exactly that word.
template <class Enum>
std::optional<Enum> find_in_list(std::string_view word) {
  const std::span<const WordInfo> words = words_of<Enum>();
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].word == word) return static_cast<Enum>(i);
  return std::nullopt;
}

struct Alias {
  std::string_view alias, word;
};
/// Other libraries' names of dtypes, accepted wherever a dtype is read.
std::span<const Alias> dtype_aliases();

/// The enumerator of a word; dtypes also have aliases such as "half" or "e4m3".
template <class Enum>
std::optional<Enum> from_word(std::string_view word) {
  return find_in_list<Enum>(word);
}
template <>
std::optional<DType> from_word<DType>(std::string_view word);

}  // namespace regard
