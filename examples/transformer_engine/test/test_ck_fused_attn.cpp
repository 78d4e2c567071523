// test_ck_fused_attn [TARGET]: calls the library as TransformerEngine does, with structs and with argument
// lists, forward and then backward, and compares all its outputs with ../../calls/test/reference.cpp.
// TARGET is a CPU target, or "cuda". Needs the kernels of te_test.toml.
#include <te_regard.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory.h"
#include "reference.h"
#include "through_lists.h"

namespace {

using namespace ck_fused_attn;
using std::int64_t;

bool failed = false;

reference::Format format(DType dtype) {
  return dtype == kBFloat16 ? reference::Format::bf16 : reference::Format::fp16;
}

template <class Number>
using Memory = test::Memory<Number>;

struct Case {
  const char* name;
  DType dtype;
  std::vector<int64_t> lengths_q, lengths_k;  // of each sequence
  int64_t room_q, room_k;                     // rows of a sequence in memory
  MaskType mask;
  int64_t left, right;
  float dropout;
  BiasType bias;
  bool varlen, padded, sbhd;
  bool sinks = false;  // only in the structs
};

constexpr int64_t h = 4, hg = 2, dim = 64;
constexpr float scale = 0.2f;
constexpr std::uint64_t seed = 0x0123456789ABCDEF, offset = 1ull << 33;

/// A tensor of all sequences: [b, room, heads, dim] in memory, [room, b, heads, dim] with sbhd, or packed
/// without padding.
struct Tensor {
  Tensor(const Case& c, const std::vector<int64_t>& lengths, int64_t room, int64_t heads) : dtype(c.dtype) {
    const auto b = static_cast<int64_t>(lengths.size());
    stride_h = dim;
    stride_s = heads * dim * (c.sbhd ? b : 1);
    int64_t tokens = 0;
    for (int64_t i = 0; i < b; ++i) {
      starts.push_back(c.sbhd ? i * heads * dim : tokens * stride_s);
      tokens += c.varlen && !c.padded ? lengths[i] : room;
    }
    stride_b = b > 1 ? starts[1] : 0;
    memory = std::make_unique<Memory<std::uint16_t>>(tokens * heads * dim);
    memory->upload();
  }

  int64_t place(int64_t sequence, int64_t row, int64_t head) const {
    return starts[sequence] + row * stride_s + head * stride_h;
  }
  template <class Pointer>
  void give(Pointer*& pointer, std::uint64_t& b, std::uint64_t& h, std::uint64_t& s) const {
    pointer = memory->data(), b = stride_b, h = stride_h, s = stride_s;
  }
  void fill(std::mt19937& random) {
    std::uniform_real_distribution<double> numbers(-1, 1);
    for (auto& word : memory->host) word = reference::rounded(numbers(random), format(dtype));
    memory->upload();
  }
  /// The rows of a head of a sequence.
  std::vector<double> rows(int64_t sequence, int64_t head, int64_t count) const {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t x = 0; x < dim; ++x) {
        values.push_back(reference::value_of(memory->host[place(sequence, i, head) + x], format(dtype)));
      }
    }
    return values;
  }

  DType dtype;
  int64_t stride_b, stride_h, stride_s;
  std::vector<int64_t> starts;
  std::unique_ptr<Memory<std::uint16_t>> memory;
};

void compare(const Case& c, const char* what, const std::vector<double>& got, const std::vector<double>& want,
             double tolerance) {
  double largest = 1e-3, error = got.size() == want.size() ? 0 : INFINITY;
  for (double value : want) largest = std::fmax(largest, std::isfinite(value) ? std::fabs(value) : 0);
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    const double apart = std::fabs(got[i] - want[i]) / largest;
    error = std::isnan(apart) ? INFINITY : std::fmax(error, apart);
  }
  const bool good = error <= tolerance;
  failed |= !good;
  std::printf("%s  %s, %s: %.1e of %.1e\n", good ? "ok   " : "WRONG", c.name, what, error, tolerance);
}

void expect(const Case& c, const char* what, bool good) {
  failed |= !good;
  std::printf("%s  %s, %s\n", good ? "ok   " : "WRONG", c.name, what);
}

std::vector<std::int32_t> sums(const std::vector<int64_t>& lengths, int64_t room) {
  std::vector<std::int32_t> all{0};
  for (int64_t length : lengths) {
    all.push_back(all.back() + static_cast<std::int32_t>(room > 0 ? room : length));
  }
  return all;
}

/// The number of elements that the call has not written.
std::size_t untouched(const Tensor& tensor) {
  std::size_t count = 0;
  for (std::uint16_t word : tensor.memory->host) count += word == 0xFFFF;
  return count;
}

void run(const Case& c, bool through_lists) {
  std::mt19937 random(7);
  const auto b = static_cast<int64_t>(c.lengths_q.size());
  Tensor q(c, c.lengths_q, c.room_q, h), k(c, c.lengths_k, c.room_k, hg), v(c, c.lengths_k, c.room_k, hg);
  Tensor o(c, c.lengths_q, c.room_q, h), grad_o(c, c.lengths_q, c.room_q, h),
      grad_q(c, c.lengths_q, c.room_q, h);
  Tensor grad_k(c, c.lengths_k, c.room_k, hg), grad_v(c, c.lengths_k, c.room_k, hg);
  for (Tensor* tensor : {&q, &k, &v, &grad_o}) tensor->fill(random);
  const int64_t tokens_q = static_cast<int64_t>(q.memory->host.size()) / (h * dim);
  const int64_t tokens_k = static_cast<int64_t>(k.memory->host.size()) / (hg * dim);
  Memory<float> lse(h * tokens_q);
  lse.upload();
  Memory<std::uint64_t> rng({seed, offset});
  Memory<std::uint16_t> bias(h * c.room_q * c.room_k), grad_bias(h * c.room_q * c.room_k);
  for (auto& word : bias.host)
    word = reference::rounded(std::sin(static_cast<double>(&word - bias.host.data())), format(c.dtype));
  bias.upload();
  Memory<float> slopes({0.5f, 0.25f, 0.125f, 0.0625f});
  Memory<std::int32_t> cu_q(sums(c.lengths_q, 0)), cu_k(sums(c.lengths_k, 0));
  Memory<std::int32_t> room_q(sums(c.lengths_q, c.room_q)), room_k(sums(c.lengths_k, c.room_k));
  void *padded_q = c.padded ? room_q.data() : nullptr, *padded_k = c.padded ? room_k.data() : nullptr;
  void* cu_kv = c.lengths_k == c.lengths_q ? cu_q.data() : cu_k.data();  // as in self-attention
  const bool has_dbias = c.bias == elementwise_bias;
  const int64_t longest = c.padded ? c.room_q : *std::max_element(c.lengths_q.begin(), c.lengths_q.end());
  expect(c, "longest sequence",
         static_cast<int64_t>(get_runtime_max_seqlen(static_cast<std::uint64_t>(b), cu_q.data(), padded_q,
                                                     nullptr, nullptr)) == longest);

  Memory<float> sinks({0.5f, -1, 2, 0.25f}), grad_sinks(h);

  CkAttnBwdArgs args;
  args.dtype = c.dtype;
  args.b = b, args.h = h, args.hg = hg, args.s_q = c.room_q, args.s_kv = c.room_k, args.d_qk = args.d_v = dim;
  if (c.varlen) {
    args.max_tokens_q = tokens_q, args.max_tokens_kv = tokens_k;
    args.cu_seqlen_q_ptr = cu_q.data(), args.cu_seqlen_kv_ptr = cu_kv;
    args.cu_seqlen_q_padded_ptr = padded_q, args.cu_seqlen_kv_padded_ptr = padded_k;
  } else {
    args.bias_b = 1, args.bias_h = h;
    args.bias_ptr = bias.data(), args.alibi_slope_ptr = slopes.data();
    args.attn_bias_type = c.bias;
    args.dbias_ptr = has_dbias ? grad_bias.data() : nullptr;
  }
  args.attn_mask_type = c.mask, args.window_size_left = c.left, args.window_size_right = c.right;
  args.scaling_factor = scale, args.dropout_probability = c.dropout;
  args.philox_seed_ptr = rng.data(), args.philox_offset_ptr = static_cast<std::uint64_t*>(rng.data()) + 1;
  if (c.sinks) {
    args.sink_ptr = sinks.data(), args.has_sink = true;
    args.d_sink_ptr = grad_sinks.data();
  }
  q.give(args.q_ptr, args.stride_b_q, args.stride_h_q, args.stride_s_q);
  k.give(args.k_ptr, args.stride_b_k, args.stride_h_k, args.stride_s_k);
  v.give(args.v_ptr, args.stride_b_v, args.stride_h_v, args.stride_s_v);
  o.give(args.o_ptr, args.stride_b_o, args.stride_h_o, args.stride_s_o);
  grad_o.give(args.do_ptr, args.stride_b_do, args.stride_h_do, args.stride_s_do);
  grad_q.give(args.dq_ptr, args.stride_b_dq, args.stride_h_dq, args.stride_s_dq);
  grad_k.give(args.dk_ptr, args.stride_b_dk, args.stride_h_dk, args.stride_s_dk);
  grad_v.give(args.dv_ptr, args.stride_b_dv, args.stride_h_dv, args.stride_s_dv);
  args.lse_ptr = lse.data();
  args.deterministic = !has_dbias;
  Memory<std::uint8_t> workspace(static_cast<int64_t>(ck_attn_bwd_workspace_size(args)));
  args.aiter_workspace_ptr = workspace.data(), args.aiter_workspace_bytes = workspace.host.size();
  CKAttnFwdArgs forward;
  static_cast<CKAttnCommonArgs&>(forward) = args;
  forward.is_training = true;
  forward.o_ptr = o.memory->data(), forward.lse_ptr = lse.data();
  if (through_lists) {
    forward_through_lists(forward);
    backward_through_lists(args);
  } else {
    ck_attn_fwd(forward, nullptr);
    ck_attn_bwd(args, nullptr);
  }
  for (Tensor* tensor : {&o, &grad_q, &grad_k, &grad_v}) tensor->memory->download();
  lse.download();
  grad_bias.download();
  if (c.sinks) grad_sinks.download();

  std::vector<double> got[7], want[7];
  const auto append = [](std::vector<double>& to, const std::vector<double>& values) {
    to.insert(to.end(), values.begin(), values.end());
  };
  want[5].resize(grad_bias.host.size());
  want[6].resize(h);
  int64_t rows = 0, keys = 0, tokens = 0;
  for (int64_t i = 0; i < b; ++i) {
    const int64_t lq = c.lengths_q[i], lk = c.lengths_k[i];
    for (int64_t group = 0; group < hg; ++group) {
      std::vector<double> sum_k(lk * dim), sum_v(lk * dim);
      for (int64_t head = group * (h / hg); head < (group + 1) * (h / hg); ++head) {
        const auto bias_at = [&](int64_t row, int64_t key) {
          return (head * c.room_q + row) * c.room_k + key;
        };
        const auto result = reference::attention(
            {lq, lk, dim, q.rows(i, head, lq), k.rows(i, group, lk), v.rows(i, group, lk),
             grad_o.rows(i, head, lq), scale,
             [&](int64_t row, int64_t key) {
               const int64_t diagonal = row + (c.mask == mask_bottom_right ? lk - lq : 0);
               return (c.left < 0 || key >= diagonal - c.left) && (c.right < 0 || key <= diagonal + c.right);
             },
             [&](int64_t row, int64_t key) {
               if (c.bias == no_bias) return 0.0;
               if (c.bias == alibi) return -slopes.host[head] * std::fabs(row + lk - lq - key);
               return reference::value_of(bias.host[bias_at(row, key)], format(c.dtype));
             },
             [&](int64_t row, int64_t key) {
               return c.dropout == 0 ? 1 : reference::kept(seed, offset, 0.2, i, head, row, key);
             },
             c.sinks ? sinks.host[head] : -INFINITY});
        want[6][head] += result.grad_sink;
        append(got[0], o.rows(i, head, lq));
        append(want[0], result.o);
        append(want[1], result.lse);
        for (int64_t row = 0; row < lq; ++row) {
          got[1].push_back(c.varlen ? lse.host[head * tokens_q + tokens + row]
                                    : lse.host[(i * h + head) * c.room_q + row]);
        }
        append(got[2], grad_q.rows(i, head, lq));
        append(want[2], result.grad_q);
        for (int64_t x = 0; x < lk * dim; ++x) sum_k[x] += result.grad_k[x], sum_v[x] += result.grad_v[x];
        for (int64_t row = 0; has_dbias && row < lq; ++row) {
          for (int64_t key = 0; key < lk; ++key)
            want[5][bias_at(row, key)] += result.grad_bias[row * lk + key];
        }
      }
      append(got[3], grad_k.rows(i, group, lk));
      append(want[3], sum_k);
      append(got[4], grad_v.rows(i, group, lk));
      append(want[4], sum_v);
    }
    rows += lq, keys += lk, tokens += c.padded ? c.room_q : lq;
  }
  for (std::uint16_t word : grad_bias.host) got[5].push_back(reference::value_of(word, format(c.dtype)));

  const double tolerance = c.dtype == kBFloat16 ? 0.01 : 0.002;
  got[6].assign(grad_sinks.host.begin(), grad_sinks.host.end());
  const char* names[] = {"o", "lse", "dq", "dk", "dv", "dbias", "dsink"};
  for (int i = 0; i < 7; ++i) {
    if ((i == 5 && !has_dbias) || (i == 6 && !c.sinks)) continue;
    compare(c, names[i], got[i], want[i], i == 1 ? 1e-4 : i == 6 ? 3 * tolerance : tolerance);
  }
  const std::size_t padding_q = (tokens_q - rows) * h * dim, padding_k = (tokens_k - keys) * hg * dim;
  const bool left_alone = untouched(o) == padding_q && untouched(grad_q) == padding_q &&
                          untouched(grad_k) == padding_k && untouched(grad_v) == padding_k;
  expect(c, "padding is not written", left_alone);
}

/// Expects that the call is refused with a message that contains this sentence.
template <class Call>
void refuses(const char* sentence, const Call& call) {
  std::string said = "nothing was refused";
  try {
    call();
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  const bool good = said.find(sentence) != std::string::npos;
  failed |= !good;
  std::printf("%s  %s\n", good ? "ok   " : "WRONG", said.c_str());
}

void run_refused() {
  Memory<std::uint16_t> memory(4 * 64 * 4 * 96);
  Memory<std::uint64_t> rng({seed, offset});
  const auto call = [&](std::uint64_t heads_k, std::uint64_t d, float dropout, void* offset_place,
                        MaskType mask, int64_t left) {
    ck_attn_fwd(kBFloat16, 1, 2, heads_k, 24, 24, d, d, 1, 1, memory.data(), 0, d, 2 * d, memory.data(), 0, d,
                heads_k * d, memory.data(), 0, d, heads_k * d, nullptr, nullptr, true, scale, dropout,
                rng.data(), offset_place, no_bias, mask, left, 0, memory.data(), 0, d, 2 * d, nullptr, false,
                0, nullptr);
  };
  void* right = static_cast<std::uint64_t*>(rng.data()) + 1;
  refuses("refused: window_generic is not taken", [&] { call(2, 64, 0, right, window_generic, 5); });
  refuses("invalid: no_mask has no diagonal", [&] { call(2, 64, 0, right, no_mask, 5); });
  refuses("refused: the dropout offset does not lie",
          [&] { call(2, 64, 0.2f, rng.data(), mask_top_left, -1); });
  refuses("invalid: hq=2 is not a multiple of hk=3", [&] { call(3, 64, 0, right, mask_top_left, -1); });
  const auto with = [&](auto change) {
    return [&memory, change] {
      CkAttnBwdArgs args;
      args.dtype = kBFloat16;
      args.b = 1, args.h = args.hg = 2, args.s_q = args.s_kv = 24, args.d_qk = args.d_v = 64;
      args.sink_ptr = memory.data(), args.has_sink = true;
      change(args);
      ck_attn_bwd(args, nullptr);
    };
  };
  refuses("refused: sink_size=4 asks", with([](CkAttnBwdArgs& args) { args.sink_size = 4; }));
  refuses("invalid: has_sink and sink_ptr", with([](CkAttnBwdArgs& args) { args.has_sink = false; }));
  refuses("invalid: d_sink_ptr asks", with([](CkAttnBwdArgs& args) {
            args.d_sink_ptr = args.dq_ptr = const_cast<void*>(args.sink_ptr);
            args.sink_ptr = nullptr, args.has_sink = false;
          }));
  refuses("refused: packed sequences take no bias", with([](CkAttnBwdArgs& args) {
            args.cu_seqlen_q_ptr = args.cu_seqlen_kv_ptr = args.sink_ptr, args.attn_bias_type = alibi;
          }));
  refuses("invalid: cumulative lengths without",
          with([](CkAttnBwdArgs& args) { args.cu_seqlen_kv_ptr = args.sink_ptr; }));
  refuses("refused: ALiBi from the top left", with([](CkAttnBwdArgs& args) {
            args.attn_bias_type = alibi, args.attn_mask_type = mask_top_left, args.s_kv = 25;
          }));
  refuses("d = 96", [&] { call(2, 96, 0, right, mask_top_left, -1); });
}

}  // namespace

int main(int argc, char** argv) try {
  test::target = argc > 1 ? argv[1] : nullptr;
  use_target(test::target);
  const std::vector<int64_t> full_q{40, 40}, full_k{57, 57}, some_q{40, 0, 17}, some_k{57, 3, 30};
  const Case cases[] = {
      {"dense, GQA, causal from the top left, dropout", kBFloat16, full_q, full_k, 40, 57, mask_top_left, -1,
       0, 0.2f, no_bias, false, false, false},
      {"sbhd, window from the bottom right, dropout", kBFloat16, full_q, full_k, 40, 57, mask_bottom_right, 9,
       2, 0.2f, no_bias, false, false, true},
      {"dense, bias, fp16", kFloat16, full_q, full_k, 40, 57, no_mask, -1, -1, 0, elementwise_bias, false,
       false, false},
      {"dense, ALiBi, causal from the bottom right", kBFloat16, full_q, full_k, 40, 57, mask_bottom_right, -1,
       0, 0, alibi, false, false, false},
      {"packed, self, causal, dropout", kBFloat16, some_q, some_q, 40, 40, mask_top_left, -1, 0, 0.2f,
       no_bias, true, false, false},
      {"packed and padded, causal from the bottom right, dropout", kBFloat16, some_q, some_k, 44, 60,
       mask_bottom_right, -1, 0, 0.2f, no_bias, true, true, false},
      {"dense, sinks, GQA, window from the bottom right", kBFloat16, full_q, full_k, 40, 57,
       mask_bottom_right, 9, 0, 0, no_bias, false, false, false, true},
  };
  for (const Case& c : cases) {
    run(c, false);
    if (!c.sinks) run(c, true);
  }
  run_refused();
  return failed ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
