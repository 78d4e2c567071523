#include "engine/bind.h"

#include <algorithm>

#include "plan/function_bits.h"
#include "plan/function_ranges.h"
#include "plan/plan_parts.h"
#include "plan/stage.h"

namespace regard {
namespace {

using Tensor = regard_tensor;

bool present(const Tensor& tensor) {
  return tensor.data != nullptr;
}

template <class T>
T* pointer(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

/// The stride of a dimension that can be broadcast.
i64 stride_or_zero(const Tensor& tensor, int dimension) {
  return tensor.shape[dimension] == 1 ? 0 : tensor.strides[dimension];
}

/// [b, s, h, d] or, packed, [t, h, d].
Rows sequence_rows(const Tensor& tensor) {
  if (tensor.rank == 4) return {tensor.data, tensor.strides[0], tensor.strides[2], tensor.strides[1]};
  return {tensor.data, 0, tensor.strides[1], tensor.strides[0]};
}

/// [b, h, s] or, packed, [h, t].
Rows head_rows(const Tensor& tensor) {
  if (tensor.rank == 3) return {tensor.data, tensor.strides[0], tensor.strides[1], tensor.strides[2]};
  return {tensor.data, 0, tensor.strides[0], tensor.strides[1]};
}

/// [1|b, 1|h, 1|s, n] or, packed, [1|h, t, n].
Rows score_rows(const Tensor& tensor) {
  if (tensor.rank == 4) {
    return {tensor.data, stride_or_zero(tensor, 0), stride_or_zero(tensor, 1), stride_or_zero(tensor, 2)};
  }
  return {tensor.data, 0, stride_or_zero(tensor, 0), tensor.strides[1]};
}

/// Dimensions that share a bias also share its gradient, which kernels see as strides of 0. The problem
/// decides this: an empty tensor can have any strides.
Rows grad_bias_rows(const Problem& p, const Tensor& tensor) {
  if (!p.dbias) return {};
  const auto stride = [&tensor](int dimension, bool own) {
    return own ? std::max<i64>(tensor.strides[dimension], 1) : 0;
  };
  return {tensor.data, stride(0, has_batches(p.bias)), stride(1, has_heads(p.bias)), tensor.strides[2]};
}

void bind_sizes(const Problem& p, Arguments& a) {
  a.b = p.b;
  a.hq = p.hq;
  a.hk = p.hk;
  a.sq = p.sq;
  a.sk = p.sk;
  a.tq = query_tokens(p);
  a.tk = key_tokens(p);
  a.d = static_cast<i32>(p.d);
  a.dv = static_cast<i32>(p.dv);
  a.dtype = static_cast<i32>(p.dtype);
  a.kv = static_cast<i32>(p.kv);
  a.out = static_cast<i32>(p.out);
  a.bias_dtype = static_cast<i32>(p.bias_type);
}

void bind_mask(const Problem& p, Arguments& a) {
  a.positional = p.mask != Mask::none;
  a.top_left = p.mask == Mask::causal_top_left || p.mask == Mask::window_top_left;
  const bool causal = p.mask == Mask::causal || p.mask == Mask::causal_top_left;
  a.window_left = causal ? -1 : p.window_left;
  a.window_right = causal ? 0 : p.window_right;
  a.sink_tokens = p.sink_tokens;
}

/// [1], [1|b, hk], [pages, hk], or K without its columns: [b, s, h] or, packed, [t, h]; or, with
/// descale=columns, K with dv/128 columns.
Rows factor_rows(const Problem& p, const Tensor& tensor) {
  if (!present(tensor) || tensor.rank == 1) return {tensor.data, 0, 0, 0};
  if (p.descale == Descale::columns) return sequence_rows(tensor);
  if (tensor.rank == 3) return {tensor.data, tensor.strides[0], tensor.strides[2], tensor.strides[1]};
  if (p.descale == Descale::token) return {tensor.data, 0, tensor.strides[1], tensor.strides[0]};
  return {tensor.data, stride_or_zero(tensor, 0), tensor.strides[1], 0};
}

/// [rows, n]
Rows table_rows(const Tensor& tensor) {
  return {tensor.data, 0, 0, tensor.strides[0]};
}

void bind_cache_sizes(const Problem& p, Arguments& a) {
  a.cache.present = is_cache(p);
  a.cache.page = p.paged;
  a.added.most = p.snew;
  a.added.total = p.tnew;
  a.added.rotary = static_cast<i32>(p.rotary);
  a.added.first_rotated = static_cast<i32>(first_rotated(p));
  a.added.rope_rows = rope_rows(p);
  a.added.wide_slots = p.slots == SlotType::int64;
  a.added.rope = static_cast<i32>(p.rope);
  a.added.rope_type = static_cast<i32>(p.rope_type);
  a.descale = static_cast<i32>(p.descale);
}

void bind_cache(const Problem& p, const regard_arguments& given, Arguments& a) {
  const auto& t = given.tensor;
  const bool list = present(t[REGARD_PAGE_OFFSETS]);
  const Tensor& pages = t[list ? REGARD_PAGE_LIST : REGARD_PAGE_TABLE];
  a.cache.page_table = pointer<const i32>(pages);
  a.cache.page_table_batch = list ? 0 : pages.strides[0];
  a.cache.page_offsets = pointer<const i32>(t[REGARD_PAGE_OFFSETS]);
  a.cache.last_page_lengths = pointer<const i32>(t[REGARD_LAST_PAGE_LENGTHS]);
  a.cache.index = pointer<const i32>(t[REGARD_CACHE_INDEX]);
  a.cache.left_padding = pointer<const i32>(t[REGARD_LEFT_PADDING]);
  if (!is_vectorized(p)) return;
  // [pages, hk, d/x, page*x] and [pages, hk, page/x, dv*x], x elements in 16 bytes
  const i64 x = 16 / static_cast<i64>(bytes_of(p.kv));
  a.k = {a.k.data, t[REGARD_K].strides[0], t[REGARD_K].strides[1], x};
  a.v = {a.v.data, t[REGARD_V].strides[0], t[REGARD_V].strides[1], 1};
  a.cache.k_chunk = std::max<i64>(t[REGARD_K].strides[2], 1);  // a single group can have any stride
  a.cache.v_chunk = std::max<i64>(t[REGARD_V].strides[2], 1);
}

void bind_new_tokens(const regard_arguments& given, Arguments& a) {
  const auto& t = given.tensor;
  NewTokens& added = a.added;
  if (present(t[REGARD_K_NEW])) added.k = sequence_rows(t[REGARD_K_NEW]);
  if (present(t[REGARD_V_NEW])) added.v = sequence_rows(t[REGARD_V_NEW]);
  added.offsets = pointer<const i32>(t[REGARD_OFFSETS_NEW]);
  added.slots = t[REGARD_SLOTS].data;
  added.cos = table_rows(t[REGARD_ROPE_COS]);
  added.sin = table_rows(t[REGARD_ROPE_SIN]);
}

void bind_positions(const Problem& p, const Tensor& positions, Arguments& a) {
  a.added.positions = pointer<const i32>(positions);
  if (!present(positions)) return;
  const bool of_tokens = p.positions == Positions::token;
  a.added.positions_batch = of_tokens && positions.rank == 1 ? 0 : positions.strides[0];
  a.added.positions_row = of_tokens ? positions.strides[positions.rank - 1] : 0;
}

void bind_parts(const regard_arguments& given, Arguments& a) {
  const Tensor& o = given.tensor[REGARD_PARTIAL_O];
  const Tensor& lse = given.tensor[REGARD_PARTIAL_LSE];
  a.parts_o = {o.data, o.strides[0], o.strides[2], o.strides[1]};
  a.parts_lse = {lse.data, lse.strides[0], lse.strides[1], lse.strides[2]};
}

/// Forward reads the rotated queries, and the stage before it those of the caller.
void bind_rotated_queries(const Plan& plan, void* workspace, Arguments& a) {
  if (plan.rotated_q == WorkspaceLayout::none) return;
  const Problem& p = plan.problem;
  const i64 columns = rotated_q_columns(p);
  a.added.q = a.q;
  a.q = {plan.workspace.at(plan.rotated_q, workspace), p.varlen ? 0 : p.sq * p.hq * columns, columns,
         p.hq * columns};
}

/// The first stage writes bits or ranges, and the others read them.
void bind_written_mask(const Plan& plan, void* workspace, Arguments& a) {
  if (plan.bits != WorkspaceLayout::none) set_written_bits(plan, workspace, a);
  if (plan.ranges != WorkspaceLayout::none) set_written_ranges(plan, workspace, a);
}

void bind_dropout(const Problem& p, Arguments& a) {
  a.dropout_keep = 255;
  a.dropout_scale = 1;
  if (p.dropout > 0) {
    a.dropout_keep = dropout_keep_of(p);
    a.dropout_scale = static_cast<float>(keep_scale_of(p));
  }
}

void bind_seed(const Plan& plan, const regard_arguments& given, Arguments& a) {
  a.seed = given.seed;
  a.offset = given.offset;
  const Tensor& seed = given.tensor[REGARD_SEED];
  if (!present(seed)) return;
  if (plan.target->on_cpu()) {
    a.seed = pointer<u64>(seed)[0];
    a.offset = pointer<u64>(seed)[1];
  } else {
    a.seeds = pointer<const u64>(seed);
  }
}

}  // namespace

Arguments constants(const Plan& plan) {
  const Problem& p = plan.problem;
  Arguments a{};
  bind_sizes(p, a);
  bind_mask(p, a);
  bind_dropout(p, a);
  bind_cache_sizes(p, a);
  a.scale = static_cast<float>(scale_of(p));
  a.softcap = static_cast<float>(p.softcap);
  a.accumulate = p.accumulate;
  return a;
}

Arguments bind(const Plan& plan, const Arguments& constants, const regard_arguments& given, void* workspace) {
  const Problem& p = plan.problem;
  const auto& t = given.tensor;
  Arguments a = constants;
  bind_seed(plan, given, a);

  const auto sequences = [&t](regard_role role) {
    return present(t[role]) ? sequence_rows(t[role]) : Rows{};
  };
  const auto scores = [&t](regard_role role) { return present(t[role]) ? score_rows(t[role]) : Rows{}; };
  a.q = sequences(REGARD_Q);
  a.k = sequences(REGARD_K);
  a.k_rope = sequences(REGARD_K_ROPE);
  a.v = p.latent ? a.k : sequences(REGARD_V);
  a.o = sequences(REGARD_O);
  a.grad_o = sequences(REGARD_GRAD_O);
  a.grad_q = sequences(REGARD_GRAD_Q);
  a.grad_k = sequences(REGARD_GRAD_K);
  a.grad_v = sequences(REGARD_GRAD_V);
  a.lse = present(t[REGARD_LSE]) ? head_rows(t[REGARD_LSE]) : Rows{};
  a.row_max = present(t[REGARD_ROW_MAX]) ? head_rows(t[REGARD_ROW_MAX]) : Rows{};
  a.grad_lse = present(t[REGARD_GRAD_LSE]) ? head_rows(t[REGARD_GRAD_LSE]) : Rows{};
  a.bias = scores(REGARD_BIAS);
  a.grad_bias = grad_bias_rows(p, t[REGARD_GRAD_BIAS]);
  a.bits = scores(REGARD_BITS);
  a.dropout_mask = scores(REGARD_DROPOUT_MASK);
  a.alibi = pointer<const float>(t[REGARD_ALIBI]);
  a.alibi_batch = p.bias == Bias::alibi_batch ? t[REGARD_ALIBI].strides[0] : 0;
  a.sink = pointer<const float>(t[REGARD_SINK]);
  a.grad_sink = pointer<float>(t[REGARD_GRAD_SINK]);
  a.offsets_q = pointer<const i32>(t[REGARD_OFFSETS_Q]);
  a.offsets_k = pointer<const i32>(t[REGARD_OFFSETS_K]);
  a.lengths_q = pointer<const i32>(t[REGARD_LENGTHS_Q]);
  a.lengths_k = pointer<const i32>(t[REGARD_LENGTHS_K]);
  a.ranges = pointer<const i32>(t[REGARD_RANGES]);
  a.ranges_batch = t[REGARD_RANGES].rank == 3 ? stride_or_zero(t[REGARD_RANGES], 0) : 0;
  a.descale_q = factor_rows(p, t[REGARD_DESCALE_Q]);
  a.descale_k = factor_rows(p, t[REGARD_DESCALE_K]);
  a.descale_v = p.latent ? a.descale_k : factor_rows(p, t[REGARD_DESCALE_V]);
  bind_cache(p, given, a);
  bind_new_tokens(given, a);
  bind_positions(p, t[REGARD_POSITIONS], a);
  bind_parts(given, a);
  bind_rotated_queries(plan, workspace, a);
  bind_written_mask(plan, workspace, a);
  return a;
}

}  // namespace regard
