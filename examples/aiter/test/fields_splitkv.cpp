#include "fields.h"

namespace test {
namespace {

using Args = aiter::mha_fwd_splitkv_args;

const Case dense = [] {
  Case c = split;
  c.varlen = false;
  return c;
}();

#define CHANGES(name, of, ...) FIELD(Args, name, of, changes, "", __VA_ARGS__)
#define STAYS(name, of, ...) FIELD(Args, name, of, stays, "", __VA_ARGS__)
#define REFUSED(name, of, sentence, ...) FIELD(Args, name, of, refused, sentence, __VA_ARGS__)

const std::vector<Field<Args>> fields{
    CHANGES(q_ptr, dense, a.q_ptr = s.spare.memory.data()),
    CHANGES(k_ptr, dense, a.k_ptr = s.spare.memory.data()),
    CHANGES(v_ptr, dense, a.v_ptr = s.spare.memory.data()),
    STAYS(bias_ptr, dense, a.bias_ptr = s.bias.data()),  // the argument bias_type says whether it is read
    // Memory for the parts; the library has its own.
    STAYS(lse_acc_ptr, dense, a.lse_acc_ptr = s.spare.memory.data()),
    STAYS(o_acc_ptr, dense, a.o_acc_ptr = s.spare.memory.data()),
    CHANGES(lse_ptr, dense, a.lse_ptr = s.grad_bias.data()),
    REFUSED(lse_ptr, dense, "has_lse needs", a.lse_ptr = nullptr),
    CHANGES(o_ptr, dense, a.o_ptr = s.grad_q.memory.data()),
    REFUSED(block_table_ptr, dense, "ask for a cache", a.block_table_ptr = s.starts_q.data()),
    // Without a table these are ignored.
    STAYS(batch_stride_block_table, dense, a.batch_stride_block_table = 4),
    STAYS(page_block_size, dense, a.page_block_size = 128),
    STAYS(is_gappy, dense, a.is_gappy = true),
    REFUSED(cache_batch_idx, dense, "ask for a cache", a.cache_batch_idx = s.starts_q.data()),
    REFUSED(seqstart_q_ptr, dense, "is for group mode", a.seqstart_q_ptr = s.starts_q.data()),
    CHANGES(seqstart_q_ptr, split, a.seqstart_q_ptr = s.sums_q.data()),
    CHANGES(seqstart_k_ptr, split, a.seqstart_k_ptr = s.sums_k.data()),
    CHANGES(seqlen_k_ptr, dense, a.seqlen_k_ptr = s.other_counts.data()),
    CHANGES(seqlen_k_ptr, split, a.seqlen_k_ptr = s.other_counts.data()),
    CHANGES(seqlen_k_ptr, split, a.seqlen_k_ptr = nullptr),
    CHANGES(sink_ptr, dense, a.sink_ptr = s.other_sinks.data()),
    CHANGES(seqlen_q, dense, a.seqlen_q = 39),
    STAYS(seqlen_q, split, a.seqlen_q = 1),  // taken from seqstart
    CHANGES(seqlen_k, dense, (a.seqlen_k = 39, a.seqlen_k_ptr = nullptr)),
    STAYS(seqlen_k, split, a.seqlen_k = 1),
    CHANGES(batch, dense, a.batch = 1),
    REFUSED(max_seqlen_q, dense, "max_seqlen_q=39 is less", a.max_seqlen_q = 39),
    REFUSED(hdim_q, dense, "d=32", a.hdim_q = 32),
    REFUSED(hdim_v, dense, "dv=32", a.hdim_v = 32),
    CHANGES(nhead_q, dense, a.nhead_q = a.nhead_k = 2),
    REFUSED(nhead_k, dense, "hk=3", a.nhead_k = 3),
    REFUSED(num_splits, dense, "num_splits=0", a.num_splits = 0),
    REFUSED(num_splits, dense, "num_splits=129", a.num_splits = 129),
    CHANGES(scale_s, dense, a.scale_s = 0.1f),
    REFUSED(scale_p, dense, "static 8-bit scales", a.scale_p = 2),
    REFUSED(scale_o, dense, "static 8-bit scales", a.scale_o = 2),
    REFUSED(logits_soft_cap, dense, "softcap", a.logits_soft_cap = 3),  // no kernel in aiter_test.toml
    CHANGES(stride_q, dense, a.stride_q += 8),
    CHANGES(stride_k, dense, a.stride_k += 8),
    CHANGES(stride_v, dense, a.stride_v += 8),
    STAYS(stride_bias, dense, a.stride_bias = 8),
    STAYS(stride_o_acc, dense, a.stride_o_acc = 8),
    CHANGES(stride_o, dense, a.stride_o += 8),
    CHANGES(nhead_stride_q, dense, a.nhead_stride_q *= 2),
    CHANGES(nhead_stride_k, dense, a.nhead_stride_k *= 2),
    CHANGES(nhead_stride_v, dense, a.nhead_stride_v *= 2),
    STAYS(nhead_stride_bias, dense, a.nhead_stride_bias = 8),
    CHANGES(nhead_stride_lse, dense, a.nhead_stride_lse += 1),
    STAYS(nhead_stride_lse_acc, dense, a.nhead_stride_lse_acc = 8),
    STAYS(nhead_stride_o_acc, dense, a.nhead_stride_o_acc = 8),
    CHANGES(nhead_stride_o, dense, a.nhead_stride_o *= 2),
    CHANGES(batch_stride_q, dense, a.batch_stride_q += 8),
    CHANGES(batch_stride_k, dense, a.batch_stride_k += 8),
    CHANGES(batch_stride_v, dense, a.batch_stride_v += 8),
    STAYS(batch_stride_bias, dense, a.batch_stride_bias = 8),
    CHANGES(batch_stride_lse, dense, a.batch_stride_lse += 1),
    STAYS(batch_stride_lse_acc, dense, a.batch_stride_lse_acc = 8),
    STAYS(batch_stride_o_acc, dense, a.batch_stride_o_acc = 8),
    CHANGES(batch_stride_o, dense, a.batch_stride_o += 8),
    STAYS(split_stride_lse_acc, dense, a.split_stride_lse_acc = 8),
    STAYS(split_stride_o_acc, dense, a.split_stride_o_acc = 8),
    CHANGES(window_size_left, dense, a.window_size_left = 3),
    CHANGES(window_size_right, dense, a.window_size_right = 5),
    CHANGES(sink_size, dense, (a.sink_size = 4, a.window_size_left = 3)),
    // Without has_sink it is ignored: AITER's own callers leave it uninitialised.
    STAYS(sink_size, dense, a.sink_size = 4),
    REFUSED(mask_type, dense, "different masks", a.mask_type = 1),
};

bool prefill_is_refused() {
  const float result = aiter::mha_batch_prefill({}, {}, "bf16", true, mask_enum::mask_bottom_right,
                                                bias_enum::no_bias, false, quant_scale_enum::no_scale, false);
  const bool good =
      result == -1 && std::string(aiter::why_refused()).find("paged cache") != std::string::npos;
  std::printf("%s  %s\n", good ? "ok   " : "WRONG", aiter::why_refused());
  return good;
}

}  // namespace

bool walk_splitkv() {
  const Walk<Args> walk{&Setup::splitkv, &Setup::split, &Setup::clear_forward, &Setup::forward_outputs};
  return walk("mha_fwd_splitkv_args", fields) & prefill_is_refused();
}

}  // namespace test
