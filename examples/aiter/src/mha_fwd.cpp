#include "mha_fwd.h"

#include "answer.h"
#include "attention.h"
#include "refusal.h"

namespace aiter {
namespace {

using calls::Call;
using calls::refuse;

void require_supported(const mha_fwd_args& a) {
  require_no_check(a.v3_api_check);
  if (a.s_randval)
    refuse(TE_REGARD_REFUSED, "s_randval asks for the random numbers of AITER's dropout, which draws others");
  if (a.min_seqlen_q != 0) {
    refuse(TE_REGARD_REFUSED,
           "min_seqlen_q would leave rows of short sequences unwritten; give 0, or seqlen_q_ptr with 0 for "
           "them");
  }
  if (!a.has_sink && (a.sink_ptr != nullptr || a.sink_size != 0))
    refuse(TE_REGARD_INVALID,
           "has_sink is false beside sink_ptr or sink_size, which would be dropped; set it");
  if (!a.is_group_mode && (a.seqlen_q_ptr != nullptr || a.seqlen_k_ptr != nullptr))
    refuse(TE_REGARD_INVALID,
           "seqlen_q_ptr and seqlen_k_ptr are for group mode; dense sequences have cu_seqlen");
  if (a.has_lse && a.lse_ptr == nullptr) refuse(TE_REGARD_INVALID, "has_lse needs lse_ptr");
}

/// " descale=tensor", or nothing.
std::string scale_words(const mha_fwd_args& a) {
  if (a.qscale_type != 0 && a.qscale_type != 1) {
    refuse(TE_REGARD_REFUSED, "qscale_type " + std::to_string(a.qscale_type) +
                                  " is not taken; give no_scale (0) or pertensor (1)");
  }
  if (a.block_scale_seqstart_q_ptr != nullptr || a.block_scale_seqstart_k_ptr != nullptr)
    refuse(TE_REGARD_REFUSED, "block_scale_seqstart is for scales of blocks, which are not taken");
  for (const ck_tile::index_t stride :
       {a.nhead_stride_q_descale, a.nhead_stride_k_descale, a.nhead_stride_v_descale,
        a.batch_stride_q_descale, a.batch_stride_k_descale, a.batch_stride_v_descale}) {
    if (stride != 0)
      refuse(TE_REGARD_REFUSED, "strides of descale ask for more than one factor for a tensor; give 0");
  }
  const bool some = a.q_descale_ptr || a.k_descale_ptr || a.v_descale_ptr;
  const bool all = a.q_descale_ptr && a.k_descale_ptr && a.v_descale_ptr;
  if (some && a.qscale_type == 0)
    refuse(TE_REGARD_INVALID,
           "qscale_type is no_scale beside descale pointers, which would be dropped; give 1");
  if (!all && a.qscale_type == 1)
    refuse(TE_REGARD_INVALID, "qscale_type pertensor needs q_descale_ptr, k_descale_ptr and v_descale_ptr");
  return all ? " descale=tensor" : "";
}

Work forward(const mha_fwd_args& a, void* stream) {
  require_supported(a);
  const Attention attention{
      a.data_type,
      a.batch,
      a.nhead_q,
      a.nhead_k,
      a.hdim_q,
      a.hdim_v,
      a.scale_s,
      a.logits_soft_cap,
      a.mask_type,
      a.window_size_left,
      a.window_size_right,
      a.sink_size,
      a.bias_type,
      a.bias_ptr,
      a.stride_bias,
      a.nhead_stride_bias,
      a.batch_stride_bias,
      a.is_group_mode,
      Sequences({'q', a.seqstart_q_ptr, a.seqlen_q_ptr, a.cu_seqlen_q_ptr, a.seqlen_q, a.max_seqlen_q},
                a.is_group_mode, a.batch, stream),
      Sequences({'k', a.seqstart_k_ptr, a.seqlen_k_ptr, a.cu_seqlen_k_ptr, a.seqlen_k}, a.is_group_mode,
                a.batch, stream)};
  const std::string words =
      scale_words(a) + (a.sink_ptr ? " sink" : "") + (a.has_lse ? " lse" : "") + dropout_words(a.p_drop);
  Call call(attention.text("fwd", words), stream);
  attention.q.set_tokens(call, TE_REGARD_Q, a.q_ptr, a.stride_q, a.nhead_stride_q, a.batch_stride_q);
  attention.k.set_tokens(call, TE_REGARD_K, a.k_ptr, a.stride_k, a.nhead_stride_k, a.batch_stride_k);
  attention.k.set_tokens(call, TE_REGARD_V, a.v_ptr, a.stride_v, a.nhead_stride_v, a.batch_stride_v);
  attention.q.set_tokens(call, TE_REGARD_O, a.o_ptr, a.stride_o, a.nhead_stride_o, a.batch_stride_o);
  attention.set_sequences(call);
  attention.set_bias(call, stream);
  if (a.has_lse && a.is_group_mode) call.set(TE_REGARD_LSE, a.lse_ptr, {a.nhead_stride_lse});
  if (a.has_lse && !a.is_group_mode)
    call.set(TE_REGARD_LSE, a.lse_ptr, {a.batch_stride_lse, a.nhead_stride_lse});
  if (a.sink_ptr != nullptr) call.set(TE_REGARD_SINK, a.sink_ptr);
  if (a.qscale_type == 1) {
    call.set(TE_REGARD_DESCALE_Q, a.q_descale_ptr);
    call.set(TE_REGARD_DESCALE_K, a.k_descale_ptr);
    call.set(TE_REGARD_DESCALE_V, a.v_descale_ptr);
  }
  set_seed(call, a.p_drop, a.drop_seed_offset);
  return {{call}};
}

}  // namespace

float mha_fwd(mha_fwd_args args, const ck_tile::stream_config& stream_config) {
  return answer(stream_config, [&] { return forward(args, stream_config.stream_id_); });
}

float mha_batch_prefill(mha_batch_prefill_args, const ck_tile::stream_config& stream_config, std::string,
                        bool, mask_enum, bias_enum, bool, quant_scale_enum, bool) {
  return answer(stream_config, []() -> Work {
    refuse(TE_REGARD_REFUSED,
           "mha_batch_prefill reads a paged cache, for which there are no kernels yet; gather its pages and "
           "call "
           "mha_fwd");
  });
}

}  // namespace aiter
