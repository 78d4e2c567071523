// Backward of AITER's C++ interface, implemented with Regard, as mha_fwd.h is for forward.
#ifndef AITER_MHA_BWD_H
#define AITER_MHA_BWD_H

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "ck_tile_names.h"
#include "mha_api.h"

namespace aiter {

/// dK and dV have a part for every query head ([batch, s, nhead_q, dim]), and dbias one for every sequence
/// and head; the caller sums them.
struct mha_bwd_args {
  bool use_asm_v3, v3_atomic_fp32;
  int v3_bf16_cvt;
  bool v3_api_check;

  int hdim_q, hdim_v;
  std::string data_type;  // fp32, fp16, bf16
  bool is_group_mode;
  int mask_type;  // mask_enum
  int bias_type;  // bias_enum
  bool has_dbias, has_dropout, is_store_randval, is_deterministic;

  const void *q_ptr, *k_ptr, *v_ptr, *bias_ptr, *o_ptr, *lse_ptr, *do_ptr;
  void *d_ptr, *rand_val_ptr, *dq_ptr, *dk_ptr, *dv_ptr, *dbias_ptr;
  const void* sink_ptr = nullptr;  // fp32 [batch, nhead_q]
  void* d_sink_ptr = nullptr;      // fp32 [nhead_q]: the gradient is added to it

  const void *seqstart_q_ptr = nullptr, *seqstart_k_ptr = nullptr;
  const void *seqlen_q_ptr = nullptr, *seqlen_k_ptr = nullptr;
  const void *cu_seqlen_q_ptr = nullptr, *cu_seqlen_k_ptr = nullptr;
  int seqlen_q, seqlen_k, batch, max_seqlen_q, max_seqlen_k, nhead_q, nhead_k;
  float scale;

  int stride_q, stride_k, stride_v, stride_bias, stride_o, stride_randval, stride_do, stride_dq, stride_dk,
      stride_dv, stride_dbias;
  int nhead_stride_q, nhead_stride_k, nhead_stride_v, nhead_stride_bias, nhead_stride_o, nhead_stride_randval,
      nhead_stride_do, nhead_stride_lsed, nhead_stride_dq, nhead_stride_dk, nhead_stride_dv,
      nhead_stride_dbias;
  int batch_stride_q, batch_stride_k, batch_stride_v, batch_stride_bias, batch_stride_o, batch_stride_randval,
      batch_stride_do, batch_stride_lsed, batch_stride_dq, batch_stride_dk, batch_stride_dv,
      batch_stride_dbias;

  int window_size_left, window_size_right;
  float p_drop, p_undrop;
  drop_seed_offset_t drop_seed_offset;
  std::function<void*(std::size_t bytes, bool zero_init)> workspace_alloc{};
  std::function<std::shared_ptr<void>(std::size_t bytes)> pinned_host_alloc{};
};

AITER_API float mha_bwd(mha_bwd_args args, const ck_tile::stream_config& stream_config);

}  // namespace aiter

#endif  // AITER_MHA_BWD_H
