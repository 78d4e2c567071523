// Packed sequences as TransformerEngine has them: cumulative lengths, and beside them, where sequences are
// padded, the cumulative sums of what they take in memory.
#pragma once

#include <vector>

#include "ck_fused_attn/ck_fused_attn.hpp"

namespace ck_fused_attn {

struct Packed {
  const void* offsets;  // where each sequence begins
  const void* sums;     // of the lengths that count

  Packed(const void* cu_seqlen, const void* cu_seqlen_padded)
      : offsets(cu_seqlen_padded == nullptr ? cu_seqlen : cu_seqlen_padded), sums(cu_seqlen) {}

  bool padded() const { return offsets != sums; }
};

/// The b + 1 numbers at `sums`, once the work in the stream that may write them is done.
std::vector<std::int32_t> host_copy(const void* sums, std::uint64_t b, hipStream_t stream);

/// The length of each sequence.
std::vector<std::int32_t> lengths_of(const Packed& packed, std::uint64_t b, hipStream_t stream);

}  // namespace ck_fused_attn
