#include "problem/words.h"

namespace regard {
namespace {

constexpr Alias aliases[] = {
    {"f32", "fp32"},
    {"float32", "fp32"},
    {"float", "fp32"},
    {"bfloat16", "bf16"},
    {"f16", "fp16"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"e4m3", "fp8"},
    {"fp8_e4m3", "fp8"},
    {"bf8", "fp8_e5m2"},
    {"e5m2", "fp8_e5m2"},
    {"e4m3fnuz", "fp8_fnuz"},
    {"fp8_e4m3_fnuz", "fp8_fnuz"},
    {"e5m2fnuz", "fp8_e5m2_fnuz"},
};

}  // namespace

std::span<const Alias> dtype_aliases() {
  return aliases;
}

template <>
std::optional<DType> from_word<DType>(std::string_view word) {
  for (const Alias& alias : aliases)
    if (word == alias.alias) word = alias.word;
  return find_in_list<DType>(word);
}

#define REGARD_WORDS(Type, LIST)      \
  REGARD_WORDS_OF(Type, LIST)         \
  std::string_view word(Type value) { \
    return word_in_list(value);       \
  }
REGARD_WORDS(Pass, REGARD_PASS)
REGARD_WORDS(DType, REGARD_DTYPE)
REGARD_WORDS(Mask, REGARD_MASK)
REGARD_WORDS(Bias, REGARD_BIAS)
REGARD_WORDS(Descale, REGARD_DESCALE)
REGARD_WORDS(SlotType, REGARD_SLOTS)
REGARD_WORDS(Positions, REGARD_POSITIONS)
REGARD_WORDS(PageTable, REGARD_PAGE_TABLE)
REGARD_WORDS(KvLayout, REGARD_KV_LAYOUT)
REGARD_WORDS(Rope, REGARD_ROPE)
REGARD_WORDS(Layout, REGARD_LAYOUT)
#undef REGARD_WORDS

}  // namespace regard
