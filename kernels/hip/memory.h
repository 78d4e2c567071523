// Shared memory by address, and pairs in global memory.
#pragma once

#include "kernels/hip/number.h"
#include "kernels/hip/thread.h"

namespace regard {

template <i32 count>
REGARD_DEVICE void store_words(u32 to, const u32 (&x)[count]) {
  static_assert(count == 1 || count == 2 || count % 4 == 0);
  constexpr i32 at_once = smaller(count, 4);
  using Vector = typename WordsOf<at_once>::Vector;
#pragma unroll
  for (i32 first = 0; first < count; first += at_once) {
    Vector words;
#pragma unroll
    for (i32 i = 0; i < at_once; ++i) words[i] = x[first + i];
    *LdsPointer<Vector>(to + 4 * first) = words;
  }
}
REGARD_DEVICE void store_vector(u32 to, const u32 (&words)[4]) {
  store_words(to, words);
}
template <i32 count>
REGARD_DEVICE void load_words(u32 (&x)[count], u32 from) {
  using Vector = typename WordsOf<count>::Vector;
  const Vector words = *LdsPointer<Vector>(from);
#pragma unroll
  for (i32 i = 0; i < count; ++i) x[i] = words[i];
}

/// By all lanes of the wave; `from` is the address of four 16-bit numbers of a row. Of each 16 lanes, four
/// neighbours have the addresses of 16 columns of one of four rows, and each lane gets one of the columns. A
/// template, so that only compilers for chips that have the instruction need to know it.
template <class Four>
REGARD_DEVICE void load_column(u32 (&x)[2], u32 from) {
  const Four column = __builtin_amdgcn_ds_read_tr16_b64_v4i16(LdsPointer<Four>(from));
  __builtin_memcpy(x, &column, sizeof x);
}

template <i32 count>
REGARD_DEVICE void load_shared(float (&x)[count], u32 from) {
  u32 words[count];
  load_words(words, from);
#pragma unroll
  for (i32 i = 0; i < count; ++i) x[i] = bits_as<float>(words[i]);
}
REGARD_DEVICE void load_shared(float& x, u32 from) {
  x = *LdsPointer<float>(from);
}

/// Neighbouring elements.
template <DType dtype, i32 count>
REGARD_DEVICE void store_numbers(u32 to, const float (&x)[count]) {
  constexpr i32 of_word = dtype == DType::fp32 ? 1 : 2;
  u32 words[count / of_word];
#pragma unroll
  for (i32 i = 0; i < count / of_word; ++i) {
    if constexpr (dtype == DType::fp32)
      words[i] = bits_as<u32>(x[i]);
    else
      words[i] = pair<dtype>(x[2 * i], x[2 * i + 1]);
  }
  store_words(to, words);
}
/// Stores two neighbouring elements to global memory, aligned to 8 bytes.
REGARD_DEVICE void store_pair(float* to, float x, float y) {
  *reinterpret_cast<float2*>(to) = float2{x, y};
}

}  // namespace regard
