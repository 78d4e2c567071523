#include "setup.h"

#include <cmath>
#include <random>

namespace test {
namespace {

using std::int64_t;

std::vector<std::uint16_t> waves(int64_t count) {
  std::vector<std::uint16_t> words(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = reference::rounded(std::sin(static_cast<double>(i)), reference::Format::bf16);
  return words;
}

std::vector<std::int32_t> sums(const std::vector<int64_t>& lengths) {
  std::vector<std::int32_t> all{0};
  for (int64_t length : lengths) all.push_back(all.back() + static_cast<std::int32_t>(length));
  return all;
}

template <class Number>
void clear(Memory<Number>& memory) {
  std::memset(memory.host.data(), 0xFF, memory.host.size() * sizeof(Number));
  memory.upload();
}

template <class Number>
void append(std::vector<std::uint8_t>& bytes, Memory<Number>& memory) {
  memory.download();
  const auto* begin = reinterpret_cast<const std::uint8_t*>(memory.host.data());
  bytes.insert(bytes.end(), begin, begin + memory.host.size() * sizeof(Number));
}

}  // namespace

Tensor::Tensor(bool varlen, int64_t room, int64_t heads)
    : nhead_stride(dim),
      stride(2 * heads * dim),
      batch_stride(varlen ? 0 : 2 * room * stride),
      start(varlen ? room * stride : batch_stride),
      memory(2 * batch * 2 * room * stride) {}

void Tensor::fill(unsigned of) {
  std::mt19937 random(of);
  std::uniform_real_distribution<double> numbers(-1, 1);
  for (auto& word : memory.host) word = reference::rounded(numbers(random), reference::Format::bf16);
  memory.upload();
}

std::vector<double> Tensor::rows(int64_t sequence, int64_t head, int64_t count) const {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t x = 0; x < dim; ++x) {
      const std::uint16_t word = memory.host[static_cast<std::size_t>(place(sequence, i, head) + x)];
      values.push_back(reference::value_of(word, reference::Format::bf16));
    }
  }
  return values;
}

Setup::Setup(const Case& of)
    : c(of),
      q(c.varlen, room_q, heads_q),
      k(c.varlen, room_k, c.heads_k),
      v(c.varlen, room_k, c.heads_k),
      o(c.varlen, room_q, heads_q),
      grad_o(c.varlen, room_q, heads_q),
      grad_q(c.varlen, room_q, heads_q),
      grad_k(c.varlen, room_k, heads_q),
      grad_v(c.varlen, room_k, heads_q),
      spare(c.varlen, room_k, heads_q),
      lse_nhead(batch * room_q + 3),
      lse_batch(c.varlen ? 0 : heads_q * lse_nhead + 5),
      bias_row(room_k + 8),
      bias_nhead(c.shared_bias ? 0 : room_q * (bias_row + 8)),
      bias_batch(c.shared_bias ? 0 : heads_q * (bias_nhead + 8)),
      lse(2 * (heads_q * lse_nhead + lse_batch) * batch),
      sinks({0.5f, -1, 2, 0.25f, 0.5f, -1, 2, 0.25f}),
      other_sinks({1, 1, 1, 1, 1, 1, 1, 2}),
      grad_sinks(heads_q),
      slopes({0.5f, 0.25f, 0.125f, 0.0625f, 0.1f, 0.2f, 0.3f, 0.4f, 1, 1, 1, 1}),
      factors({2, 0.5f, 3}),
      bias(waves(4 * batch * heads_q * room_q * bias_row)),
      grad_bias(4 * batch * heads_q * room_q * bias_row),
      seeds({seed, offset, offset}),
      starts_q({0, room_q, 2 * room_q}),
      starts_k({0, room_k, 2 * room_k}),
      sums_q(sums(lengths_q)),
      sums_k(sums(lengths_k)),
      counts_q({40, 17, 0}),  // three, so that they can be read in place of three start offsets
      counts_k({57, 30}),
      other_counts({20, 11}) {
  unsigned number = 0;
  for (Tensor* tensor : {&q, &k, &v, &grad_o, &spare}) tensor->fill(++number);
  set_forward();
  set_backward();
  set_splitkv();
  clear_forward();
  clear_backward();
}

void Setup::clear_forward() {
  clear(o.memory);
  clear(lse);
}

void Setup::clear_backward() {
  for (Tensor* tensor : {&grad_q, &grad_k, &grad_v}) clear(tensor->memory);
  clear(grad_bias);
  grad_sinks.host.assign(heads_q, 1);
  grad_sinks.upload();
}

std::vector<std::uint8_t> Setup::forward_outputs() {
  std::vector<std::uint8_t> bytes;
  append(bytes, o.memory);
  append(bytes, lse);
  return bytes;
}

std::vector<std::uint8_t> Setup::backward_outputs() {
  std::vector<std::uint8_t> bytes;
  for (Tensor* tensor : {&grad_q, &grad_k, &grad_v}) append(bytes, tensor->memory);
  append(bytes, grad_bias);
  append(bytes, grad_sinks);
  return bytes;
}

float Setup::split() {
  return aiter::mha_fwd_splitkv(splitkv, {}, traits.data_type, traits.varlen, traits.mask, traits.bias,
                                traits.has_lse, traits.has_sink);
}

/// The fields that all three structs have under the same names.
template <class Args>
static void set_common(Args& a, Setup& s) {
  const auto n = [](int64_t value) { return static_cast<std::int32_t>(value); };
  const Case& c = s.c;
  a.batch = n(batch), a.nhead_q = n(heads_q), a.nhead_k = n(c.heads_k), a.hdim_q = a.hdim_v = n(dim);
  a.seqlen_q = n(c.varlen ? batch * room_q : room_q), a.seqlen_k = n(c.varlen ? batch * room_k : room_k);
  a.max_seqlen_q = n(room_q);
  a.q_ptr = s.q.memory.data(), a.k_ptr = s.k.memory.data(), a.v_ptr = s.v.memory.data();
  a.stride_q = n(s.q.stride), a.nhead_stride_q = n(s.q.nhead_stride), a.batch_stride_q = n(s.q.batch_stride);
  a.stride_k = n(s.k.stride), a.nhead_stride_k = n(s.k.nhead_stride), a.batch_stride_k = n(s.k.batch_stride);
  a.stride_v = n(s.v.stride), a.nhead_stride_v = n(s.v.nhead_stride), a.batch_stride_v = n(s.v.batch_stride);
  a.stride_o = n(s.o.stride), a.nhead_stride_o = n(s.o.nhead_stride), a.batch_stride_o = n(s.o.batch_stride);
  a.o_ptr = s.o.memory.data(), a.lse_ptr = s.lse.data();
  if (c.bias == bias_enum::elementwise_bias) {
    a.bias_ptr = s.bias.data();
    a.stride_bias = n(s.bias_row), a.nhead_stride_bias = n(s.bias_nhead),
    a.batch_stride_bias = n(s.bias_batch);
  } else if (c.bias == bias_enum::alibi) {
    a.bias_ptr = s.slopes.data(), a.stride_bias = n(heads_q);
  }
  if (c.varlen) a.seqstart_q_ptr = s.starts_q.data(), a.seqstart_k_ptr = s.starts_k.data();
  a.window_size_left = c.left, a.window_size_right = c.right, a.mask_type = static_cast<int>(c.mask);
  if (c.sinks) a.sink_ptr = s.sinks.data();
}

void Setup::set_forward() {
  set_common(fwd, *this);
  fwd.data_type = "bf16", fwd.is_group_mode = c.varlen, fwd.bias_type = static_cast<int>(c.bias);
  fwd.has_lse = true, fwd.has_sink = c.sinks || c.sink_tokens > 0;
  fwd.cu_seqlen_q_ptr = sums_q.data(), fwd.cu_seqlen_k_ptr = sums_k.data();
  fwd.scale_s = scale, fwd.logits_soft_cap = c.softcap;
  fwd.nhead_stride_lse = static_cast<int>(lse_nhead), fwd.batch_stride_lse = static_cast<int>(lse_batch);
  fwd.sink_size = c.sink_tokens;
  fwd.p_drop = c.dropout, fwd.drop_seed_offset = std::pair{seed, offset};
  fwd.block_scale_size_q = fwd.block_scale_size_kv = 128;  // as AITER always sets them
}

void Setup::set_backward() {
  const auto n = [](int64_t value) { return static_cast<int>(value); };
  set_common(bwd, *this);
  bwd.data_type = "bf16", bwd.is_group_mode = c.varlen, bwd.bias_type = static_cast<int>(c.bias);
  bwd.has_dropout = c.dropout > 0, bwd.p_drop = c.dropout, bwd.p_undrop = 1 - c.dropout;
  bwd.drop_seed_offset =
      std::pair<const void*, const void*>{seeds.data(), static_cast<std::uint64_t*>(seeds.data()) + 1};
  bwd.max_seqlen_k = n(room_k), bwd.scale = scale;
  bwd.cu_seqlen_q_ptr = sums_q.data(), bwd.cu_seqlen_k_ptr = sums_k.data();
  bwd.nhead_stride_lsed = n(lse_nhead), bwd.batch_stride_lsed = n(lse_batch);
  const auto give = [&](Tensor& t, auto*& pointer, int& row, int& head, int& of_batch) {
    pointer = t.memory.data(), row = n(t.stride), head = n(t.nhead_stride), of_batch = n(t.batch_stride);
  };
  give(grad_o, bwd.do_ptr, bwd.stride_do, bwd.nhead_stride_do, bwd.batch_stride_do);
  give(grad_q, bwd.dq_ptr, bwd.stride_dq, bwd.nhead_stride_dq, bwd.batch_stride_dq);
  give(grad_k, bwd.dk_ptr, bwd.stride_dk, bwd.nhead_stride_dk, bwd.batch_stride_dk);
  give(grad_v, bwd.dv_ptr, bwd.stride_dv, bwd.nhead_stride_dv, bwd.batch_stride_dv);
  if (c.bias == bias_enum::elementwise_bias) {
    bwd.has_dbias = true, bwd.dbias_ptr = grad_bias.data();
    bwd.stride_dbias = n(bias_row), bwd.nhead_stride_dbias = n(room_q * (bias_row + 8));
    bwd.batch_stride_dbias = n(heads_q * (room_q * (bias_row + 8) + 8));
  }
  if (c.sinks) bwd.d_sink_ptr = grad_sinks.data();
}

void Setup::set_splitkv() {
  set_common(splitkv, *this);
  splitkv.seqlen_k_ptr = counts_k.data();
  splitkv.num_splits = 3, splitkv.scale_s = scale, splitkv.scale_p = splitkv.scale_o = 1;
  splitkv.logits_soft_cap = c.softcap, splitkv.sink_size = c.sink_tokens;
  splitkv.nhead_stride_lse = fwd.nhead_stride_lse, splitkv.batch_stride_lse = fwd.batch_stride_lse;
  traits.varlen = c.varlen, traits.mask = c.mask, traits.bias = c.bias, traits.has_sink = fwd.has_sink;
}

}  // namespace test
