// Forward of AITER's C++ interface, implemented with Regard: the same structs and symbols. ../README.md says
// what each field maps to. Every function returns milliseconds if stream_config requests the time, otherwise
// 0, and -1 if the call cannot be computed, with the reason on stderr and from why_refused(). None throws.
#ifndef AITER_MHA_FWD_H
#define AITER_MHA_FWD_H

#include <string>

#include "ck_tile_names.h"
#include "mha_api.h"

namespace aiter {

/// Strides are in elements. Sequences are dense ([batch, s, heads, dim], in any memory order) or, with
/// is_group_mode, packed ([tokens, heads, dim]).
struct mha_fwd_args {
  bool use_asm_v3;
  bool v3_api_check;
  int how_v3_bf16_cvt;

  std::string data_type;  // fp32, fp16, bf16; fp8bf16, fp8fp32: 8 bits in, 16 or 32 out
  bool is_group_mode;
  int bias_type;  // bias_enum
  bool has_lse;
  int qscale_type;  // quant_scale_enum
  bool has_sink = false;

  const void *q_ptr, *k_ptr, *v_ptr;
  const void* bias_ptr;                                       // elements, or fp32 slopes of ALiBi
  const void *q_descale_ptr, *k_descale_ptr, *v_descale_ptr;  // fp32 [1]
  void *rand_val_ptr, *lse_ptr, *o_ptr;

  const void *seqstart_q_ptr = nullptr, *seqstart_k_ptr = nullptr;    // int32 [batch + 1]: start offsets
  const void *seqlen_q_ptr = nullptr, *seqlen_k_ptr = nullptr;        // int32 [batch]: logical lengths
  const void *cu_seqlen_q_ptr = nullptr, *cu_seqlen_k_ptr = nullptr;  // int32 [batch + 1]: sums of those
  const void *block_scale_seqstart_q_ptr, *block_scale_seqstart_k_ptr;
  const void* sink_ptr;  // fp32 [nhead_q]

  ck_tile::index_t seqlen_q, seqlen_k, batch, max_seqlen_q, hdim_q, hdim_v, nhead_q, nhead_k;
  float scale_s, logits_soft_cap;

  ck_tile::index_t stride_q, stride_k, stride_v;
  ck_tile::index_t stride_bias;  // for ALiBi: 0 for slopes [nhead_q], else batch stride of [batch, nhead_q]
  ck_tile::index_t stride_randval, stride_o;
  ck_tile::index_t nhead_stride_q, nhead_stride_k, nhead_stride_v, nhead_stride_bias, nhead_stride_randval,
      nhead_stride_lse, nhead_stride_o, nhead_stride_q_descale, nhead_stride_k_descale,
      nhead_stride_v_descale;
  ck_tile::index_t batch_stride_q, batch_stride_k, batch_stride_v, batch_stride_bias, batch_stride_randval,
      batch_stride_lse, batch_stride_o, batch_stride_q_descale, batch_stride_k_descale,
      batch_stride_v_descale;

  ck_tile::index_t window_size_left, window_size_right, sink_size;
  ck_tile::index_t mask_type;  // mask_enum
  ck_tile::index_t min_seqlen_q;

  float p_drop;
  bool s_randval;
  drop_seed_offset_t drop_seed_offset;
  ck_tile::index_t block_scale_size_q, block_scale_size_kv;
};

using mha_fwd_splitkv_args = fmha_fwd_splitkv_args;
using mha_batch_prefill_args = fmha_batch_prefill_args;

AITER_API float mha_fwd(mha_fwd_args args, const ck_tile::stream_config& stream_config);

AITER_API float mha_fwd_splitkv(mha_fwd_splitkv_args args, const ck_tile::stream_config& stream_config,
                                std::string q_dtype_str, bool is_group_mode, mask_enum mask_type,
                                bias_enum bias_type, bool has_lse, bool has_sink = false);

/// Refused until there are kernels for a paged cache.
AITER_API float mha_batch_prefill(mha_batch_prefill_args args, const ck_tile::stream_config& stream_config,
                                  std::string q_dtype_str, bool is_group_mode, mask_enum mask_type,
                                  bias_enum bias_type, bool has_lse, quant_scale_enum qscale_type,
                                  bool use_ext_asm);

}  // namespace aiter

#endif  // AITER_MHA_FWD_H
