#include "fields.h"

namespace test {
namespace {

using Args = aiter::mha_fwd_args;

#define CHANGES(name, of, ...) FIELD(Args, name, of, changes, "", __VA_ARGS__)
#define STAYS(name, of, ...) FIELD(Args, name, of, stays, "", __VA_ARGS__)
#define REFUSED(name, of, sentence, ...) FIELD(Args, name, of, refused, sentence, __VA_ARGS__)

const std::vector<Field<Args>> fields{
    // These select AITER's kernel and how it rounds. Here rounding is to nearest even.
    STAYS(use_asm_v3, window, a.use_asm_v3 = true),
    REFUSED(v3_api_check, window, "v3_api_check asks", a.v3_api_check = true),
    STAYS(how_v3_bf16_cvt, window, a.how_v3_bf16_cvt = 2),

    REFUSED(data_type, window, "data_type 'fp8'", a.data_type = "fp8"),
    REFUSED(data_type, window, "fwd fp32", a.data_type = "fp32"),  // no kernel in aiter_test.toml
    REFUSED(is_group_mode, window, "group mode needs seqstart_q_ptr", a.is_group_mode = true),
    REFUSED(bias_type, window, "bias type 7", a.bias_type = 7),
    REFUSED(bias_type, varlen, "group mode takes no elementwise bias", a.bias_type = 1),
    CHANGES(has_lse, window, a.has_lse = false),
    REFUSED(qscale_type, window, "qscale_type 2", a.qscale_type = 2),
    REFUSED(qscale_type, window, "needs q_descale_ptr", a.qscale_type = 1),
    REFUSED(has_sink, window, "has_sink is false", a.has_sink = false),

    CHANGES(q_ptr, window, a.q_ptr = s.spare.memory.data()),
    CHANGES(k_ptr, window, a.k_ptr = s.spare.memory.data()),
    CHANGES(v_ptr, window, a.v_ptr = s.spare.memory.data()),
    CHANGES(bias_ptr, window, a.bias_ptr = static_cast<char*>(s.bias.data()) + 2),
    CHANGES(bias_ptr, varlen, a.bias_ptr = static_cast<char*>(s.slopes.data()) + 4),
    REFUSED(q_descale_ptr, window, "no_scale beside descale", a.q_descale_ptr = s.factors.data()),
    REFUSED(k_descale_ptr, window, "no_scale beside descale", a.k_descale_ptr = s.factors.data()),
    REFUSED(v_descale_ptr, window, "no_scale beside descale", a.v_descale_ptr = s.factors.data()),
    STAYS(rand_val_ptr, window,
          a.rand_val_ptr = s.spare.memory.data()),  // s_randval says whether it is written
    CHANGES(lse_ptr, window, a.lse_ptr = s.grad_bias.data()),
    REFUSED(lse_ptr, window, "has_lse needs lse_ptr", a.lse_ptr = nullptr),
    CHANGES(o_ptr, window, a.o_ptr = s.grad_q.memory.data()),

    REFUSED(seqstart_q_ptr, window, "is for group mode", a.seqstart_q_ptr = s.starts_q.data()),
    REFUSED(seqstart_q_ptr, varlen, "does not rise from 0", a.seqstart_q_ptr = s.counts_q.data()),
    CHANGES(seqstart_q_ptr, varlen, a.seqstart_q_ptr = s.sums_q.data()),
    REFUSED(seqstart_k_ptr, window, "is for group mode", a.seqstart_k_ptr = s.starts_k.data()),
    CHANGES(seqstart_k_ptr, varlen, a.seqstart_k_ptr = s.sums_k.data()),
    REFUSED(seqlen_q_ptr, window, "are for group mode",
            (a.seqlen_q_ptr = s.counts_q.data(), a.cu_seqlen_q_ptr = nullptr)),
    REFUSED(seqlen_q_ptr, varlen, "say the same in two ways", a.seqlen_q_ptr = s.counts_q.data()),
    STAYS(seqlen_q_ptr, varlen, (a.seqlen_q_ptr = s.counts_q.data(), a.cu_seqlen_q_ptr = nullptr)),
    CHANGES(seqlen_q_ptr, varlen, (a.seqlen_q_ptr = s.other_counts.data(), a.cu_seqlen_q_ptr = nullptr)),
    REFUSED(seqlen_q_ptr, varlen, "counts 57 rows of the 44",
            (a.seqlen_q_ptr = s.counts_k.data(), a.cu_seqlen_q_ptr = nullptr)),
    REFUSED(seqlen_k_ptr, window, "are for group mode",
            (a.seqlen_k_ptr = s.counts_k.data(), a.cu_seqlen_k_ptr = nullptr)),
    CHANGES(seqlen_k_ptr, varlen, (a.seqlen_k_ptr = s.other_counts.data(), a.cu_seqlen_k_ptr = nullptr)),
    CHANGES(cu_seqlen_q_ptr, window, a.cu_seqlen_q_ptr = nullptr),
    CHANGES(cu_seqlen_q_ptr, varlen, a.cu_seqlen_q_ptr = nullptr),
    CHANGES(cu_seqlen_k_ptr, window, a.cu_seqlen_k_ptr = nullptr),
    CHANGES(cu_seqlen_k_ptr, varlen, a.cu_seqlen_k_ptr = s.starts_k.data()),
    REFUSED(block_scale_seqstart_q_ptr, window, "scales of blocks",
            a.block_scale_seqstart_q_ptr = s.starts_q.data()),
    REFUSED(block_scale_seqstart_k_ptr, window, "scales of blocks",
            a.block_scale_seqstart_k_ptr = s.starts_k.data()),
    CHANGES(sink_ptr, window, a.sink_ptr = s.other_sinks.data()),

    CHANGES(seqlen_q, window, (a.seqlen_q = 39, a.cu_seqlen_q_ptr = nullptr)),
    STAYS(seqlen_q, varlen, a.seqlen_q = 1),  // taken from seqstart
    CHANGES(seqlen_k, window, (a.seqlen_k = 39, a.cu_seqlen_k_ptr = nullptr)),
    STAYS(seqlen_k, varlen, a.seqlen_k = 1),
    CHANGES(batch, window, a.batch = 1),
    CHANGES(batch, varlen, a.batch = 1),
    REFUSED(max_seqlen_q, window, "max_seqlen_q=39 is less", a.max_seqlen_q = 39),
    STAYS(max_seqlen_q, window, a.max_seqlen_q = 1000),
    REFUSED(hdim_q, window, "d=32", a.hdim_q = 32),
    REFUSED(hdim_v, window, "dv=32", a.hdim_v = 32),
    CHANGES(nhead_q, window, a.nhead_q = 2),
    CHANGES(nhead_k, window, a.nhead_k = 1),
    CHANGES(scale_s, window, a.scale_s = 0.1f),
    CHANGES(logits_soft_cap, window, a.logits_soft_cap = 3),

    CHANGES(stride_q, window, a.stride_q += 8),
    CHANGES(stride_k, window, a.stride_k += 8),
    CHANGES(stride_v, window, a.stride_v += 8),
    CHANGES(stride_bias, window, a.stride_bias += 1),
    CHANGES(stride_bias, varlen, a.stride_bias += 1),  // for ALiBi: the slopes of the next sequence
    STAYS(stride_randval, window, a.stride_randval = 60),
    CHANGES(stride_o, window, a.stride_o += 8),
    CHANGES(nhead_stride_q, window, a.nhead_stride_q *= 2),
    CHANGES(nhead_stride_k, window, a.nhead_stride_k *= 2),
    CHANGES(nhead_stride_v, window, a.nhead_stride_v *= 2),
    CHANGES(nhead_stride_bias, window, a.nhead_stride_bias += 1),
    STAYS(nhead_stride_randval, window, a.nhead_stride_randval = 44 * 60),
    CHANGES(nhead_stride_lse, window, a.nhead_stride_lse += 1),
    CHANGES(nhead_stride_lse, varlen, a.nhead_stride_lse += 1),
    CHANGES(nhead_stride_o, window, a.nhead_stride_o *= 2),
    REFUSED(nhead_stride_q_descale, window, "strides of descale", a.nhead_stride_q_descale = 1),
    REFUSED(nhead_stride_k_descale, window, "strides of descale", a.nhead_stride_k_descale = 1),
    REFUSED(nhead_stride_v_descale, window, "strides of descale", a.nhead_stride_v_descale = 1),
    CHANGES(batch_stride_q, window, a.batch_stride_q += 8),
    STAYS(batch_stride_q, varlen, a.batch_stride_q = 8),  // packed sequences have none
    CHANGES(batch_stride_k, window, a.batch_stride_k += 8),
    STAYS(batch_stride_k, varlen, a.batch_stride_k = 8),
    CHANGES(batch_stride_v, window, a.batch_stride_v += 8),
    STAYS(batch_stride_v, varlen, a.batch_stride_v = 8),
    CHANGES(batch_stride_bias, window, a.batch_stride_bias += 1),
    STAYS(batch_stride_randval, window, a.batch_stride_randval = 4 * 44 * 60),
    CHANGES(batch_stride_lse, window, a.batch_stride_lse += 1),
    STAYS(batch_stride_lse, varlen, a.batch_stride_lse = 1),
    CHANGES(batch_stride_o, window, a.batch_stride_o += 8),
    STAYS(batch_stride_o, varlen, a.batch_stride_o = 8),
    REFUSED(batch_stride_q_descale, window, "strides of descale", a.batch_stride_q_descale = 1),
    REFUSED(batch_stride_k_descale, window, "strides of descale", a.batch_stride_k_descale = 1),
    REFUSED(batch_stride_v_descale, window, "strides of descale", a.batch_stride_v_descale = 1),

    CHANGES(window_size_left, window, a.window_size_left = 3),
    CHANGES(window_size_right, window, a.window_size_right = 5),
    CHANGES(sink_size, window, a.sink_size = 1),
    REFUSED(sink_size, varlen, "has_sink is false", a.sink_size = 1),
    CHANGES(mask_type, window, a.mask_type = 1),
    REFUSED(mask_type, window, "no_mask has no diagonal", a.mask_type = 0),
    REFUSED(mask_type, window, "window_generic is not taken", a.mask_type = 3),
    REFUSED(mask_type, window, "mask type 4", a.mask_type = 4),
    REFUSED(mask_type, varlen, "ALiBi from the top left", a.mask_type = 1),
    REFUSED(min_seqlen_q, window, "min_seqlen_q would leave rows", a.min_seqlen_q = 1),

    CHANGES(p_drop, window, a.p_drop = 0.5f),
    REFUSED(s_randval, window, "s_randval asks", a.s_randval = true),
    CHANGES(drop_seed_offset, window, (a.drop_seed_offset = std::pair{seed + 1, offset})),
    CHANGES(drop_seed_offset, window, (a.drop_seed_offset = std::pair{seed, offset + 1})),
    STAYS(drop_seed_offset, window,
          (a.drop_seed_offset =
               std::pair<const void*, const void*>{s.seeds.data(),
                                                   static_cast<std::uint64_t*>(s.seeds.data()) + 1})),
    REFUSED(drop_seed_offset, window, "does not lie right after",
            (a.drop_seed_offset =
                 std::pair<const void*, const void*>{s.seeds.data(),
                                                     static_cast<std::uint64_t*>(s.seeds.data()) + 2})),
    STAYS(block_scale_size_q, window,
          a.block_scale_size_q = 64),  // qscale_type says whether there are blocks
    STAYS(block_scale_size_kv, window, a.block_scale_size_kv = 64),
};

/// With 8-bit inputs that are all 1, O is the descale factor of V.
bool descale_factors_count() {
  Setup s(split);
  s.fwd.data_type = "fp8bf16", s.fwd.qscale_type = 1, s.fwd.has_lse = false;
  s.fwd.has_sink = false, s.fwd.sink_ptr = nullptr;
  std::memset(s.spare.memory.host.data(), 0x38, 2 * s.spare.memory.host.size());
  s.spare.memory.upload();
  s.fwd.q_ptr = s.fwd.k_ptr = s.fwd.v_ptr = s.spare.memory.data();
  const char* factors = static_cast<char*>(s.factors.data());
  s.fwd.q_descale_ptr = factors, s.fwd.k_descale_ptr = factors + 4, s.fwd.v_descale_ptr = factors + 8;
  const float result = s.forward();
  s.forward_outputs();
  const bool good = result == 0 && s.o.rows(0, 0, 1)[0] == 3;
  std::printf("%s  8 bits with a factor for each tensor\n", good ? "ok   " : "WRONG");
  if (!good) std::printf("%g %g %s\n", result, s.o.rows(0, 0, 1)[0], aiter::why_refused());
  return good;
}

}  // namespace

bool walk_forward() {
  const Walk<Args> walk{&Setup::fwd, &Setup::forward, &Setup::clear_forward, &Setup::forward_outputs};
  return walk("mha_fwd_args", fields) & descale_factors_count();
}

}  // namespace test
