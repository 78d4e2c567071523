#include "emulated_hip/attention.h"

#include "emulated_hip/kernel.h"

namespace regard::test {

std::string small_attention() {
  return "typedef _Float16 Half4 __attribute__((vector_size(8))); typedef float Sums "
         "__attribute__((vector_size(64)));\n" +
         kernel_source("const _Float16 *q, *k, *v; float* out; int rows;", R"(
  const int lane = thread % 64, wave = __builtin_amdgcn_readfirstlane(thread / 64), row = lane % 32, half = lane / 32;
  const int waves = __builtin_amdgcn_workgroup_size_x() / 64, query = 32 * wave + row;
  const u32 keys = 0, values = 2048;
  Half4 q[4];
  for (int step = 0; step < 4; ++step)
    for (int i = 0; i < 4; ++i) q[step][i] = query < x.rows ? x.q[32 * query + 8 * step + 4 * half + i] : (_Float16)0;
  Sums out = {};
  float largest = -__builtin_inff(), sum = 0;
  for (int first = 0; first < x.rows; first += 32) {
    // Keys: straight to LDS, 16 bytes of a row in an order that depends on the row.
    for (int part = wave; part < 8; part += waves) {
      const int word = 64 * part + lane, to_row = word / 16;
      const int from_row = first + to_row < x.rows ? first + to_row : x.rows - 1;
      const int column = 8 * (word / 4 % 4 ^ to_row % 4) + 2 * (word % 4);
      __builtin_amdgcn_global_load_lds(x.k + 32 * from_row + column, LdsPointer<void>(keys + 256 * part), 4, 0, 0);
    }
    // Values: through registers; those after the last row are 0.
    for (int i = thread; i < 1024; i += 64 * waves) {
      _Float16 value = 0;
      if (first + i / 32 < x.rows) value = x.v[32 * first + i];
      *LdsPointer<_Float16>(values + 2 * i) = value;
    }
    RELEASE __builtin_amdgcn_s_barrier() /* filled */; ACQUIRE
    Sums scores = {};
    for (int step = 0; step < 4; ++step) {
      Half4 k = *LdsPointer<Half4>(keys + 64 * row + 16 * (step ^ row % 4) + 8 * half);
      scores = __builtin_amdgcn_mfma_f32_32x32x8f16(k, q[step], scores, 0, 0, 0);
    }
    float top = largest;
    for (int i = 0; i < 16; ++i) {
      const int key = first + 8 * (i / 4) + 4 * half + i % 4;
      if (key > query || key >= x.rows) scores[i] = -__builtin_inff();
      top = __builtin_fmaxf(top, scores[i]);
    }
    const float of_other = __builtin_bit_cast(
        float, __builtin_amdgcn_ds_bpermute(4 * (lane ^ 32), __builtin_bit_cast(int, top)));
    top = __builtin_fmaxf(top, of_other);
    const float factor = __builtin_amdgcn_exp2f(largest - top);
    largest = top;
    sum *= factor;
    out *= factor;
    for (int i = 0; i < 16; ++i) sum += scores[i] = __builtin_amdgcn_exp2f(scores[i] - top);
    for (int step = 0; step < 4; ++step) {
      Half4 p, v;
      for (int i = 0; i < 4; ++i) {
        p[i] = (_Float16)scores[4 * step + i];
        v[i] = *LdsPointer<_Float16>(values + 64 * (8 * step + 4 * half + i) + 2 * row);
      }
      out = __builtin_amdgcn_mfma_f32_32x32x8f16(v, p, out, 0, 0, 0);
    }
    RELEASE __builtin_amdgcn_s_barrier() /* read */; ACQUIRE
  }
  sum += __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(4 * (lane ^ 32), __builtin_bit_cast(int, sum)));
  if (query < x.rows)
    for (int i = 0; i < 16; ++i) x.out[32 * query + 8 * (i / 4) + 4 * half + i % 4] = out[i] / sum;
)");
}

}  // namespace regard::test
