// The common fields of AITER's three structs, as words of Regard's problem text and as its tensors.
#pragma once

#include <cstdint>
#include <string>

#include "call.h"
#include "ck_tile_names.h"
#include "sequences.h"

namespace aiter {

struct Attention {
  std::string data_type;
  std::int64_t batch, heads_q, heads_k, dim_q, dim_v;
  float scale, softcap;
  int mask_type;
  std::int64_t left, right, sink_tokens;
  int bias_type;
  const void* bias;
  std::int64_t stride_bias, nhead_stride_bias, batch_stride_bias;
  bool varlen;
  Sequences q, k;

  /// "fwd bf16 b=2 ..." with these words at its end.
  std::string text(const char* pass, const std::string& more_words) const;

  void set_sequences(calls::Call& call) const {
    q.set(call);
    k.set(call);
  }
  /// Sets the bias of this call's query heads, which are the caller's from `first_head` on.
  void set_bias(calls::Call& call, void* stream, std::int64_t first_head = 0) const;

  std::int64_t element_bytes() const {
    return data_type == "fp32" ? 4 : data_type.substr(0, 3) == "fp8" ? 1 : 2;
  }
};

/// " dropout=0.1", or nothing.
std::string dropout_words(float p_drop);
void set_seed(calls::Call& call, float p_drop, const drop_seed_offset_t& seed_offset);

/// Refuses calls that only ask whether AITER's assembly kernels would run.
void require_no_check(bool v3_api_check);

}  // namespace aiter
