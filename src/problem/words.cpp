#include "problem/words.h"

namespace regard {
namespace {

constexpr Alias aliases[] = {
    {"f32", "fp32"},     {"float32", "fp32"}, {"float", "fp32"},    {"bfloat16", "bf16"},
    {"f16", "fp16"},     {"float16", "fp16"}, {"half", "fp16"},     {"e4m3", "fp8"},
    {"fp8_e4m3", "fp8"}, {"bf8", "fp8_e5m2"}, {"e5m2", "fp8_e5m2"},
};

template <class Enum>
std::string_view canonical_word(std::string_view word) {
  if constexpr (std::is_same_v<Enum, DType>) {
    for (const Alias& alias : aliases) {
      if (word == alias.alias) return alias.word;
    }
  }
  return word;
}

template <class Enum>
std::optional<Enum> find_word(std::string_view word) {
  const std::string_view wanted = canonical_word<Enum>(word);
  const std::span<const WordInfo> words = words_of<Enum>();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].word == wanted) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::span<const Alias> dtype_aliases() {
  return aliases;
}

#define REGARD_WORD(name, text, doc) WordInfo{text, doc},
#define REGARD_WORDS(Type, LIST)                                                 \
  template <>                                                                    \
  std::span<const WordInfo> words_of<Type>() {                                   \
    static constexpr WordInfo table[] = {LIST(REGARD_WORD)};                     \
    return table;                                                                \
  }                                                                              \
  std::string_view word(Type value) {                                            \
    const auto index = static_cast<std::size_t>(value);                          \
    return index < words_of<Type>().size() ? words_of<Type>()[index].word : "?"; \
  }                                                                              \
  template <>                                                                    \
  std::optional<Type> from_word<Type>(std::string_view text) {                   \
    return find_word<Type>(text);                                                \
  }
REGARD_WORDS(Pass, REGARD_PASS)
REGARD_WORDS(DType, REGARD_DTYPE)
REGARD_WORDS(Mask, REGARD_MASK)
REGARD_WORDS(Bias, REGARD_BIAS)
REGARD_WORDS(Descale, REGARD_DESCALE)
REGARD_WORDS(PageTable, REGARD_PAGE_TABLE)
REGARD_WORDS(KvLayout, REGARD_KV_LAYOUT)
REGARD_WORDS(Rope, REGARD_ROPE)
REGARD_WORDS(Layout, REGARD_LAYOUT)
#undef REGARD_WORDS
#undef REGARD_WORD

}  // namespace regard
