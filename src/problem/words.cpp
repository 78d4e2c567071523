#include "problem/problem.h"

namespace regard {

#define REGARD_WORD(name, text, doc) \
  case Enum::name:                   \
    return text;
#define REGARD_WORDS(type, LIST)         \
  std::string_view word(type value) {    \
    using Enum = type;                   \
    switch (value) { LIST(REGARD_WORD) } \
    return "?";                          \
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
