// Shared memory by address, and pairs in global memory.
#pragma once

#include "kernels/cuda/number.h"
#include "kernels/cuda/thread.h"

namespace regard {

REGARD_DEVICE void store_vector(u32 to, const u32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

/// Neighbouring words of global memory, at an address aligned to their size; zeros if nothing is there.
REGARD_DEVICE void load_words(u32 (&words)[4], const u8* from, bool there) {
  const uint4 all = there ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
  words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
}
REGARD_DEVICE void load_words(u32 (&words)[2], const u8* from, bool there) {
  const uint2 both = there ? *reinterpret_cast<const uint2*>(from) : uint2{0, 0};
  words[0] = both.x, words[1] = both.y;
}

REGARD_DEVICE void load_shared(float (&x)[4], u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(from)
               : "memory");
}
REGARD_DEVICE void load_shared(float& x, u32 from) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
}
REGARD_DEVICE void load_shared(float (&x)[2], u32 from) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(from) : "memory");
}

/// Stores to shared memory with an asm statement: the compiler takes long for many C++ stores.
REGARD_DEVICE void store_word(u32 to, u32 x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}
REGARD_DEVICE void store_words(u32 to, const u32 (&x)[1]) {
  store_word(to, x[0]);
}
/// Two neighbouring elements.
template <DType dtype>
REGARD_DEVICE void store_numbers(u32 to, const float (&x)[2]) {
  if constexpr (dtype == DType::fp32)
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x[0]), "f"(x[1]) : "memory");
  else
    store_word(to, pair<dtype>(x[0], x[1]));
}
/// Stores two neighbouring elements to global memory, aligned to 8 bytes.
REGARD_DEVICE void store_pair(float* to, float x, float y) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
}

}  // namespace regard
