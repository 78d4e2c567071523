#include "fields.h"

namespace test {
namespace {

using Args = aiter::mha_bwd_args;

#define CHANGES(name, of, ...) FIELD(Args, name, of, changes, "", __VA_ARGS__)
#define STAYS(name, of, ...) FIELD(Args, name, of, stays, "", __VA_ARGS__)
#define REFUSED(name, of, sentence, ...) FIELD(Args, name, of, refused, sentence, __VA_ARGS__)

const std::vector<Field<Args>> fields {
  // These select AITER's kernel, how it sums dQ and how it rounds. Here rounding is to nearest even.
  STAYS(use_asm_v3, grouped, a.use_asm_v3 = true), STAYS(v3_atomic_fp32, grouped, a.v3_atomic_fp32 = true),
      STAYS(v3_bf16_cvt, grouped, a.v3_bf16_cvt = 2),
      REFUSED(v3_api_check, grouped, "v3_api_check asks", a.v3_api_check = true),

      REFUSED(hdim_q, grouped, "d=32", a.hdim_q = 32), REFUSED(hdim_v, grouped, "dv=32", a.hdim_v = 32),
      REFUSED(data_type, grouped, "has no gradients", a.data_type = "fp8bf16"),
      REFUSED(is_group_mode, grouped, "group mode needs seqstart_q_ptr", a.is_group_mode = true),
      CHANGES(mask_type, one_key_head, a.mask_type = 2),
      REFUSED(mask_type, grouped, "no_mask has no diagonal", a.mask_type = 0),
      REFUSED(mask_type, grouped, "window_generic is not taken", a.mask_type = 3),
      REFUSED(bias_type, grouped, "has_dbias needs", a.bias_type = 0),
      REFUSED(bias_type, one_key_head, "bias type 7", a.bias_type = 7),
      REFUSED(has_dbias, grouped, "is not built into the library", a.has_dbias = false),
      REFUSED(has_dropout, one_key_head, "has_dropout is false", a.has_dropout = false),
      REFUSED(is_store_randval, one_key_head, "is_store_randval asks", a.is_store_randval = true),
      STAYS(is_deterministic, grouped, a.is_deterministic = true),  // as backward always is on a CPU

      CHANGES(q_ptr, grouped, a.q_ptr = s.spare.memory.data()),
      CHANGES(k_ptr, grouped, a.k_ptr = s.spare.memory.data()),
      CHANGES(v_ptr, grouped, a.v_ptr = s.spare.memory.data()),
      CHANGES(bias_ptr, grouped, a.bias_ptr = static_cast<char*>(s.bias.data()) + 2),
      CHANGES(o_ptr, grouped, a.o_ptr = s.spare.memory.data()),
      CHANGES(lse_ptr, grouped, a.lse_ptr = static_cast<char*>(s.lse.data()) + 4),
      CHANGES(do_ptr, grouped, a.do_ptr = s.spare.memory.data()),
      STAYS(d_ptr, grouped, a.d_ptr = s.spare.memory.data()),  // memory for sums; the library has its own
      STAYS(rand_val_ptr, grouped, a.rand_val_ptr = s.spare.memory.data()),  // see is_store_randval
      CHANGES(dq_ptr, grouped, a.dq_ptr = s.spare.memory.data()),
      CHANGES(dk_ptr, grouped, a.dk_ptr = s.spare.memory.data()),
      CHANGES(dv_ptr, grouped, a.dv_ptr = s.spare.memory.data()),
      CHANGES(dbias_ptr, grouped, a.dbias_ptr = static_cast<char*>(s.grad_bias.data()) + 2),
      REFUSED(dbias_ptr, grouped, "has_dbias needs dbias_ptr", a.dbias_ptr = nullptr),
      REFUSED(sink_ptr, grouped, "other sinks for one sequence", a.sink_ptr = s.other_sinks.data()),
      REFUSED(sink_ptr, grouped, "d_sink_ptr asks", a.sink_ptr = nullptr),
      CHANGES(sink_ptr, grouped, (a.sink_ptr = s.other_sinks.data(), a.batch = 1)),
      CHANGES(d_sink_ptr, grouped, a.d_sink_ptr = nullptr),

      REFUSED(seqstart_q_ptr, grouped, "is for group mode", a.seqstart_q_ptr = s.starts_q.data()),
      CHANGES(seqstart_q_ptr, varlen, a.seqstart_q_ptr = s.sums_q.data()),
      CHANGES(seqstart_k_ptr, varlen, a.seqstart_k_ptr = s.sums_k.data()),
      REFUSED(seqlen_q_ptr, grouped, "are for group mode",
              (a.seqlen_q_ptr = s.counts_q.data(), a.cu_seqlen_q_ptr = nullptr)),
      CHANGES(seqlen_q_ptr, varlen, (a.seqlen_q_ptr = s.other_counts.data(), a.cu_seqlen_q_ptr = nullptr)),
      STAYS(seqlen_k_ptr, varlen, (a.seqlen_k_ptr = s.counts_k.data(), a.cu_seqlen_k_ptr = nullptr)),
      CHANGES(seqlen_k_ptr, varlen, (a.seqlen_k_ptr = s.other_counts.data(), a.cu_seqlen_k_ptr = nullptr)),
      CHANGES(cu_seqlen_q_ptr, grouped, a.cu_seqlen_q_ptr = nullptr),
      CHANGES(cu_seqlen_q_ptr, varlen, a.cu_seqlen_q_ptr = nullptr),
      CHANGES(cu_seqlen_k_ptr, grouped, a.cu_seqlen_k_ptr = nullptr),
      CHANGES(cu_seqlen_k_ptr, varlen, a.cu_seqlen_k_ptr = s.starts_k.data()),
      CHANGES(seqlen_q, grouped, a.cu_seqlen_q_ptr = nullptr; a.seqlen_q = 39),
      STAYS(seqlen_q, varlen, a.seqlen_q = 1),  // taken from seqstart
      CHANGES(seqlen_k, grouped, a.cu_seqlen_k_ptr = nullptr; a.seqlen_k = 39),
      STAYS(seqlen_k, varlen, a.seqlen_k = 1), CHANGES(batch, grouped, a.batch = 1),
      REFUSED(max_seqlen_q, grouped, "max_seqlen_q=39 is less", a.max_seqlen_q = 39),
      REFUSED(max_seqlen_k, varlen, "max_seqlen_k=39 is less", a.max_seqlen_k = 39),
      STAYS(max_seqlen_k, varlen, a.max_seqlen_k = 1000),
      CHANGES(nhead_q, grouped, (a.nhead_q = 2, a.batch = 1)),
      REFUSED(nhead_q, grouped, "is not a multiple", a.nhead_q = 3), CHANGES(nhead_k, grouped, a.nhead_k = 1),
      REFUSED(nhead_k, one_key_head, "dropout with grouped heads", a.nhead_k = 2),
      CHANGES(scale, grouped, a.scale = 0.1f),

      CHANGES(stride_q, grouped, a.stride_q += 8), CHANGES(stride_k, grouped, a.stride_k += 8),
      CHANGES(stride_v, grouped, a.stride_v += 8), CHANGES(stride_bias, grouped, a.stride_bias += 1),
      CHANGES(stride_bias, varlen, a.stride_bias += 1), CHANGES(stride_o, grouped, a.stride_o += 8),
      STAYS(stride_randval, grouped, a.stride_randval = 60), CHANGES(stride_do, grouped, a.stride_do += 8),
      CHANGES(stride_dq, grouped, a.stride_dq += 8), CHANGES(stride_dk, grouped, a.stride_dk += 8),
      CHANGES(stride_dv, grouped, a.stride_dv += 8), CHANGES(stride_dbias, grouped, a.stride_dbias += 1),
      CHANGES(nhead_stride_q, grouped, a.nhead_stride_q *= 2),
      CHANGES(nhead_stride_k, grouped, a.nhead_stride_k *= 2),
      CHANGES(nhead_stride_v, grouped, a.nhead_stride_v *= 2),
      CHANGES(nhead_stride_bias, grouped, a.nhead_stride_bias = 4000),
      CHANGES(nhead_stride_o, grouped, a.nhead_stride_o *= 2),
      STAYS(nhead_stride_randval, grouped, a.nhead_stride_randval = 1),
      CHANGES(nhead_stride_do, grouped, a.nhead_stride_do *= 2),
      CHANGES(nhead_stride_lsed, grouped, a.nhead_stride_lsed += 1),
      CHANGES(nhead_stride_lsed, varlen, a.nhead_stride_lsed += 1),
      CHANGES(nhead_stride_dq, grouped, a.nhead_stride_dq *= 2),
      CHANGES(nhead_stride_dk, grouped, a.nhead_stride_dk *= 2),
      CHANGES(nhead_stride_dv, grouped, a.nhead_stride_dv *= 2),
      CHANGES(nhead_stride_dbias, grouped, a.nhead_stride_dbias += 1),
      CHANGES(batch_stride_q, grouped, a.batch_stride_q += 8),
      STAYS(batch_stride_q, varlen, a.batch_stride_q = 8),  // packed sequences have none
      CHANGES(batch_stride_k, grouped, a.batch_stride_k += 8),
      STAYS(batch_stride_k, varlen, a.batch_stride_k = 8),
      CHANGES(batch_stride_v, grouped, a.batch_stride_v += 8),
      STAYS(batch_stride_v, varlen, a.batch_stride_v = 8),
      CHANGES(batch_stride_bias, grouped, a.batch_stride_bias = 20000),
      CHANGES(batch_stride_o, grouped, a.batch_stride_o += 8),
      STAYS(batch_stride_o, varlen, a.batch_stride_o = 8),
      STAYS(batch_stride_randval, grouped, a.batch_stride_randval = 1),
      CHANGES(batch_stride_do, grouped, a.batch_stride_do += 8),
      STAYS(batch_stride_do, varlen, a.batch_stride_do = 8),
      CHANGES(batch_stride_lsed, grouped, a.batch_stride_lsed += 1),
      STAYS(batch_stride_lsed, varlen, a.batch_stride_lsed = 1),
      CHANGES(batch_stride_dq, grouped, a.batch_stride_dq += 8),
      STAYS(batch_stride_dq, varlen, a.batch_stride_dq = 8),
      CHANGES(batch_stride_dk, grouped, a.batch_stride_dk += 8),
      STAYS(batch_stride_dk, varlen, a.batch_stride_dk = 8),
      CHANGES(batch_stride_dv, grouped, a.batch_stride_dv += 8),
      STAYS(batch_stride_dv, varlen, a.batch_stride_dv = 8),
      CHANGES(batch_stride_dbias, grouped, a.batch_stride_dbias += 1),

      CHANGES(window_size_left, one_key_head, a.window_size_left = 3),
      CHANGES(window_size_right, one_key_head, a.window_size_right = 5),
      CHANGES(p_drop, one_key_head, (a.p_drop = 0.5f, a.p_undrop = 0.5f)),
      REFUSED(p_drop, grouped, "has_dropout is false", a.p_drop = 0.5f),
      REFUSED(p_undrop, one_key_head, "p_undrop is not", a.p_undrop = 0.5f),
      CHANGES(drop_seed_offset, one_key_head, (a.drop_seed_offset = std::pair{seed + 1, offset})),
      STAYS(drop_seed_offset, one_key_head, (a.drop_seed_offset = std::pair{seed, offset})),
      REFUSED(drop_seed_offset, one_key_head, "does not lie right after",
              (a.drop_seed_offset =
                   std::pair<const void*, const void*>{s.seeds.data(),
                                                       static_cast<std::uint64_t*>(s.seeds.data()) + 2})),
      // The library has its own memory.
      STAYS(workspace_alloc, varlen,
            (a.workspace_alloc = [](std::size_t, bool) -> void* { return nullptr; })),
      STAYS(pinned_host_alloc, varlen,
            (a.pinned_host_alloc = [](std::size_t) -> std::shared_ptr<void> { return nullptr; })),
};

}  // namespace

bool walk_backward() {
  const Walk<Args> walk{&Setup::bwd, &Setup::backward, &Setup::clear_backward, &Setup::backward_outputs};
  return walk("mha_bwd_args", fields);
}

}  // namespace test
