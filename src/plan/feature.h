// What a target can have: a word for each capability that code asks for, as Feature::word on the host and as
// target::word in kernels. Each word means one thing; kinds of target that mean the same by it share it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace regard {

enum class TargetKind : std::uint8_t { cpu, cuda, hip };

/// X(word, the kinds that can have it, what it means). A test fails where no code asks for one.
#define REGARD_FEATURES(X)                                                                            \
  X(fma, cpu, "multiply-adds, rounded once")                                                          \
  X(f16c, cpu, "conversions of fp16")                                                                 \
  X(avx2, cpu, "instructions of AVX2")                                                                \
  X(avx512, cpu, "instructions of AVX-512: F, BW, DQ, VL")                                            \
  X(neon, cpu, "instructions of AArch64's vectors, NEON")                                             \
  X(bf16_convert, cpu | hip, "conversions to bf16")                                                   \
  X(bf16_dot, cpu, "products of bf16 pairs by vectors")                                               \
  X(bf16_matrix, cpu, "products of 2 x 4 by 4 x 2 numbers of bf16, in a vector each")                 \
  X(amx, cpu, "the tile unit, AMX")                                                                   \
  X(amx_emulated, cpu, "with `amx`: the tile unit is plain C++")                                      \
  X(matrix, cuda | hip, "matrix instructions of a warp or wave: 16-bit inputs, sums in fp32")         \
  X(mma_layout, cuda | hip, "accumulators of matrix instructions have the lane layout of `mma.sync`") \
  X(matrix_k16, cuda, "fp16 matrix instructions with a depth (k) of 16, not 8")                       \
  X(mfma_k16, hip, "16-bit matrix instructions of 32 x 32 with a depth (k) of 16, not 8")             \
  X(wmma_twice, hip, "both halves of a wave hold whole operands of matrix instructions")              \
  X(flushes_subnormals, cuda | hip, "matrix instructions take subnormal 16-bit numbers as zero")      \
  X(accumulator_registers, hip, "a lane has 256 more registers, which can hold accumulators")         \
  X(transposed_reads, hip, "an instruction reads 16-bit operands transposed from shared memory")      \
  X(banks_64, cuda | hip, "shared memory has 64 banks, not 32")                                       \
  X(async_copy, cuda | hip, "16-byte copies to shared memory that do not pass through registers")     \
  X(f16_pairs, cuda, "two fp32 become a pair of fp16 in one instruction")                             \
  X(nan_min, cuda, "a minimum of fp32 that keeps a NaN")                                              \
  X(vector_atomics, cuda, "atomic adds of two or four neighbouring fp32")                             \
  X(pdl, cuda, "programmatic dependent launch")                                                       \
  X(tma, cuda, "the tensor memory accelerator: copies of boxes by tensor maps")                       \
  X(wgmma, cuda, "matrix instructions of a warpgroup")                                                \
  X(tight_registers, cuda | hip, "its compiler uses a few more registers than for other chips of the vendor")

#define REGARD_ENUMERATOR(name, kinds, doc) name,
enum class Feature : std::uint8_t { REGARD_FEATURES(REGARD_ENUMERATOR) };
#undef REGARD_ENUMERATOR

std::string_view word(Feature);

/// The features that a target of this kind can have, in the order of the list.
std::vector<Feature> features_of(TargetKind);

}  // namespace regard
