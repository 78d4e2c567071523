// test_ck_fused_attn [TARGET]: calls the library as TransformerEngine does, forward and then backward, by
// both of its interfaces, and compares all that it writes with test/reference.cpp. TARGET is a CPU target, or
// "cuda". Needs the kernels of te_test.toml.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "case.h"

namespace {

bool failed = false;

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
  std::printf("%s  %s, %s: %.1e of %.1e\n", good ? "ok   " : "WRONG", c.name.c_str(), what, error, tolerance);
}

void expect(const Case& c, const char* what, bool good) {
  failed |= !good;
  std::printf("%s  %s, %s\n", good ? "ok   " : "WRONG", c.name.c_str(), what);
}

/// How many words are as they were before the call.
std::size_t untouched(const Tensor& tensor) {
  std::size_t count = 0;
  for (std::uint16_t word : tensor.memory->host) count += word == 0xFFFF;
  return count;
}

/// Makes the calls, and compares all that they write.
void run(const Case& c, void (*calls)(const Case&, Tensors&)) {
  const auto b = static_cast<int64_t>(c.lengths_q.size());
  const bool has_dbias = c.bias == elementwise_bias;
  Tensors t(c);
  calls(c, t);
  for (Tensor* tensor : {&t.o, &t.grad_q, &t.grad_k, &t.grad_v}) tensor->memory->download();
  t.lse.download();
  t.grad_bias.download();
  t.grad_sink.download();

  std::vector<double> got[7], want[7];
  const auto append = [](std::vector<double>& to, const std::vector<double>& values) {
    to.insert(to.end(), values.begin(), values.end());
  };
  want[5].resize(t.grad_bias.host.size());
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
            {lq, lk, dim, t.q.rows(i, head, lq), t.k.rows(i, group, lk), t.v.rows(i, group, lk),
             t.grad_o.rows(i, head, lq), scale,
             [&](int64_t row, int64_t key) {
               const int64_t diagonal = row + (c.mask == mask_bottom_right ? lk - lq : 0);
               return (c.left < 0 || key >= diagonal - c.left || (c.sink && key < sink_tokens)) &&
                      (c.right < 0 || key <= diagonal + c.right);
             },
             [&](int64_t row, int64_t key) {
               if (c.bias == no_bias) return 0.0;
               if (c.bias == alibi) return -t.slopes.host[head] * std::fabs(row + lk - lq - key);
               return reference::value_of(t.bias.host[bias_at(row, key)], c.dtype);
             },
             [&](int64_t row, int64_t key) {
               return c.dropout == 0 ? 1 : reference::kept(seed, offset, 0.2, i, head, row, key);
             },
             c.sink ? t.sink.host[head] : -INFINITY});
        want[6][head] += result.grad_sink;
        append(got[0], t.o.rows(i, head, lq));
        append(want[0], result.o);
        append(want[1], result.lse);
        for (int64_t row = 0; row < lq; ++row) {
          got[1].push_back(c.packed ? t.lse.host[head * t.tokens_q + tokens + row]
                                    : t.lse.host[(i * h + head) * c.room_q + row]);
        }
        append(got[2], t.grad_q.rows(i, head, lq));
        append(want[2], result.grad_q);
        for (int64_t x = 0; x < lk * dim; ++x) sum_k[x] += result.grad_k[x], sum_v[x] += result.grad_v[x];
        for (int64_t row = 0; has_dbias && row < lq; ++row) {
          for (int64_t key = 0; key < lk; ++key)
            want[5][bias_at(row, key)] += result.grad_bias[row * lk + key];
        }
      }
      append(got[3], t.grad_k.rows(i, group, lk));
      append(want[3], sum_k);
      append(got[4], t.grad_v.rows(i, group, lk));
      append(want[4], sum_v);
    }
    rows += lq, keys += lk, tokens += c.padded ? c.room_q : lq;
  }
  got[6].assign(t.grad_sink.host.begin(), t.grad_sink.host.end());
  for (std::uint16_t word : t.grad_bias.host) got[5].push_back(reference::value_of(word, c.dtype));

  const double tolerance = c.dtype == kBFloat16 ? 0.01 : 0.002;
  const char* names[] = {"o", "lse", "dq", "dk", "dv", "dbias", "dsink"};
  for (int i = 0; i < 7; ++i) {
    if ((i == 5 && !has_dbias) || (i == 6 && !c.sink)) continue;
    compare(c, names[i], got[i], want[i], i == 1 ? 1e-4 : tolerance);
  }
  const std::size_t padding_q = (t.tokens_q - rows) * h * dim, padding_k = (t.tokens_k - keys) * hg * dim;
  const bool left_alone = untouched(t.o) == padding_q && untouched(t.grad_q) == padding_q &&
                          untouched(t.grad_k) == padding_k && untouched(t.grad_v) == padding_k;
  expect(c, "padding is not written", left_alone);
}

/// What cannot be done is refused with this sentence in it.
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
  CKAttnFwdArgs args;
  args.dtype = kBFloat16, args.b = args.h = args.hg = 1, args.s_q = args.s_kv = 24, args.d_qk = args.d_v = 64;
  args.has_sink = true;
  refuses("invalid: has_sink is set and sink_ptr is null", [&] { ck_attn_fwd(args, nullptr); });
  args.has_sink = false;
  args.cu_seqlen_q_ptr = args.cu_seqlen_kv_ptr = memory.data(), args.attn_bias_type = alibi;
  refuses("refused: packed sequences take no bias", [&] { ck_attn_fwd(args, nullptr); });
  refuses("invalid: the cumulative lengths are missing", [&] {
    ck_attn_varlen_fwd(kBFloat16, 1, 1, 1, 24, 24, 64, 64, 24, memory.data(), 0, 0, memory.data(), 0, 0,
                       memory.data(), 0, 0, nullptr, nullptr, nullptr, nullptr, true, scale, 0, nullptr,
                       nullptr, no_mask, -1, -1, memory.data(), 0, 0, nullptr, false, 0, nullptr);
  });
  refuses("invalid: hq=2 is not a multiple of hk=3", [&] { call(3, 64, 0, right, mask_top_left, -1); });
  refuses("d = 96", [&] { call(2, 96, 0, right, mask_top_left, -1); });
}

}  // namespace

int main(int argc, char** argv) try {
  target = argc > 1 ? argv[1] : nullptr;
  use_target(target);
  const std::vector<int64_t> full_q{40, 40}, full_k{57, 57}, some_q{40, 0, 17}, some_k{57, 3, 30};
  const Case cases[] = {
      {"dense, GQA, causal from the top left, dropout", kBFloat16, full_q, full_k, 40, 57, mask_top_left, -1,
       0, 0.2f, no_bias, false, false, false, false},
      {"sbhd, window from the bottom right, dropout", kBFloat16, full_q, full_k, 40, 57, mask_bottom_right, 9,
       2, 0.2f, no_bias, false, false, true, false},
      {"dense, bias, fp16", kFloat16, full_q, full_k, 40, 57, no_mask, -1, -1, 0, elementwise_bias, false,
       false, false, false},
      {"dense, ALiBi, causal from the bottom right", kBFloat16, full_q, full_k, 40, 57, mask_bottom_right, -1,
       0, 0, alibi, false, false, false, false},
      {"packed, self, causal, dropout", kBFloat16, some_q, some_q, 40, 40, mask_top_left, -1, 0, 0.2f,
       no_bias, true, false, false, false},
      {"packed and padded, causal from the bottom right, dropout", kBFloat16, some_q, some_k, 44, 60,
       mask_bottom_right, -1, 0, 0.2f, no_bias, true, true, false, false},
      {"dense, sinks, window from the bottom right, dropout", kBFloat16, full_q, full_k, 40, 57,
       mask_bottom_right, 9, 2, 0.2f, no_bias, false, false, false, true},
      {"packed, self, sinks, causal, dropout", kBFloat16, some_q, some_q, 40, 40, mask_top_left, -1, 0, 0.2f,
       no_bias, true, false, false, true},
  };
  for (Case c : cases) {
    // The lists become structures first, so that on a GPU, which may be an emulated one, those do.
    if (!c.sink && !on_gpu()) run(c, call_by_lists);
    c.name += ", by structures";
    run(c, call_by_structures);
  }
  run_refused();
  return failed ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
