// KernelKey = canonical Signature + Algorithm + Target. Its text is a kernel's identity.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "problem/problem.h"

namespace regard {

// X(name, default, documentation): integers that a kernel is compiled with, beyond its signature. Declared
// once; text, JSON, the rendered constants and the tile tables are derived from this list. Which of them the
// tiles of a kernel have is defined by the kernel (plan/kernel.h).
#define REGARD_ALGORITHM_FIELDS(X)                                                                     \
  X(block_q, 0, "query rows per block")                                                                \
  X(block_k, 0, "keys per step of the inner loop")                                                     \
  X(block_d, 0, "gpu: head dimensions per step of Q K^T; 0 means all at once")                         \
  X(block_dv, 0, "gpu: columns of V per step of P V; 0 means all at once")                             \
  X(warps, 0, "gpu: warps (wavefronts) per block")                                                     \
  X(warp_groups, 0, "gpu: groups of warps that work in ping-pong; 0 means one")                        \
  X(warps_across, 0, "gpu: warps that share rows, each with some of the keys; 0 means one")            \
  X(stages, 0, "gpu: depth of the load pipeline")                                                      \
  X(cluster, 0, "gpu: blocks per cluster")                                                             \
  X(occupancy, 0, "gpu: blocks per multiprocessor to leave registers for; 0 lets the compiler choose") \
  X(pack_gqa, 0, "whether a block packs query heads of one K/V head; cpu_decode: how many query rows") \
  X(gather, 0, "sm90_forward: 1: threads copy the keys of pages that are too small for boxes")         \
  X(split, 0, "sm90_forward: 1: a block has a part of the keys, which combine merges with the others")

struct Algorithm {
  std::string kernel;  ///< "sm90_forward": its name (plan/kernel.h)
#define REGARD_MEMBER(name, default_value, doc) std::int64_t name = default_value;
  REGARD_ALGORITHM_FIELDS(REGARD_MEMBER)
#undef REGARD_MEMBER
  /// Blocks of a cluster: 1 without clusters.
  std::int64_t cluster_blocks() const { return cluster > 1 ? cluster : 1; }
  friend bool operator==(const Algorithm&, const Algorithm&) = default;
};

/// A pointer to one of its numbers.
using AlgorithmField = std::int64_t Algorithm::*;

struct NamedField {
  std::string_view name;
  AlgorithmField field;
};

/// All of them, in the order of the list, and their names.
std::span<const NamedField> algorithm_fields();
std::span<const std::string_view> algorithm_names();
std::string_view name_of(AlgorithmField);
/// nullptr for an unknown name.
AlgorithmField find_algorithm_field(std::string_view name);

/// Stores "block_q=64" into its field.
Status read_algorithm_word(std::string_view word, Algorithm&);

struct KernelKey {
  Signature signature;  ///< canonical: fields that the kernel does not depend on have their defaults
  Algorithm algorithm;
  std::string target;
  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};

/// "cpu-avx512bf16 cpu_forward block_q=64 block_k=96 | fwd bf16 d=128 dv=128 mask=window softcap", on a GPU
/// "sm_90a sm90_forward block_q=192 block_k=80 warps=16 warp_groups=3 stages=3 | fwd bf16 d=128", or, where
/// everything is read at run time, "cpu-avx2 cpu_generic_forward | any fwd": parses back.
std::string print(const KernelKey&);
Result<KernelKey> parse_kernel_key(std::string_view text);

}  // namespace regard
