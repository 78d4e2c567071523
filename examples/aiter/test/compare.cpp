#include <algorithm>
#include <cmath>
#include <cstdio>

#include "setup.h"

namespace test {
namespace {

using std::int64_t;

reference::Result attention(const Setup& s, int64_t sequence, int64_t head) {
  const Case& c = s.c;
  const int64_t rows = s.lengths_q[sequence], keys = s.lengths_k[sequence];
  const int64_t head_k = head / (heads_q / c.heads_k);
  const auto diagonal = [&](int64_t row) {
    return row + (c.mask == mask_enum::mask_bottom_right ? keys - rows : 0);
  };
  return reference::attention(
      {rows, keys, dim, s.q.rows(sequence, head, rows), s.k.rows(sequence, head_k, keys),
       s.v.rows(sequence, head_k, keys), s.grad_o.rows(sequence, head, rows), scale,
       [&](int64_t row, int64_t key) {
         const bool right = c.right < 0 || key <= diagonal(row) + c.right;
         return right && (c.left < 0 || key >= diagonal(row) - c.left || key < c.sink_tokens);
       },
       [&](int64_t row, int64_t key) {
         if (c.bias == bias_enum::no_bias) return 0.0;
         if (c.bias == bias_enum::alibi)
           return -static_cast<double>(s.slopes.host[sequence * heads_q + head]) *
                  std::fabs(row + keys - rows - key);
         const int64_t place = sequence * s.bias_batch + head * s.bias_nhead + row * s.bias_row + key;
         return reference::value_of(s.bias.host[static_cast<std::size_t>(place)], reference::Format::bf16);
       },
       [&](int64_t row, int64_t key) {
         return c.dropout == 0 ? 1 : reference::kept(seed, offset, 0.2, sequence, head, row, key);
       },
       c.sinks ? s.sinks.host[head] : -INFINITY, c.softcap});
}

struct Comparison {
  const char* name;
  double tolerance;
  std::vector<double> got{}, expected{};

  void add(const std::vector<double>& some_got, const std::vector<double>& some_expected) {
    got.insert(got.end(), some_got.begin(), some_got.end());
    expected.insert(expected.end(), some_expected.begin(), some_expected.end());
  }
  bool good(const Case& c) const {
    double largest = 1e-3, error = 0;
    for (double value : expected) largest = std::fmax(largest, std::isfinite(value) ? std::fabs(value) : 0);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isinf(expected[i]) && got[i] == expected[i]) continue;
      const double apart = std::fabs(got[i] - expected[i]) / largest;
      error = std::isnan(apart) ? INFINITY : std::fmax(error, apart);
    }
    const bool is_good = error <= tolerance && !got.empty();
    std::printf("%s  %s, %s: %.1e of %.1e\n", is_good ? "ok   " : "WRONG", c.name, name, error, tolerance);
    return is_good;
  }
};

/// Whether a tensor was written in the rows within the logical lengths and nowhere else.
bool only_rows_written(const Setup& s, const Tensor& tensor, const std::vector<int64_t>& lengths,
                       const char* name) {
  int64_t written = 0, rows = 0;
  for (std::uint16_t word : tensor.memory.host) written += word != 0xFFFF;
  for (int64_t length : lengths) rows += length;
  const bool good = written == rows * heads_q * dim;
  std::printf("%s  %s, nothing else of %s is written\n", good ? "ok   " : "WRONG", s.c.name, name);
  return good;
}

}  // namespace

bool compare_forward(Setup& s) {
  s.forward_outputs();  // to the host
  Comparison o{"o", 0.01}, lse{"lse", 1e-4};
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t head = 0; head < heads_q; ++head) {
      const reference::Result result = attention(s, i, head);
      o.add(s.o.rows(i, head, s.lengths_q[i]), result.o);
      for (int64_t row = 0; row < s.lengths_q[i]; ++row) {
        const int64_t first = s.c.varlen ? i * room_q : i * s.lse_batch;
        lse.add({s.lse.host[static_cast<std::size_t>(first + head * s.lse_nhead + row)]}, {result.lse[row]});
      }
    }
  }
  const bool good = o.good(s.c) & lse.good(s.c);
  return only_rows_written(s, s.o, s.lengths_q, "o") && good;
}

bool compare_backward(Setup& s) {
  s.backward_outputs();
  Comparison q{"dq", 0.01}, k{"dk of every query head", 0.01}, v{"dv of every query head", 0.01};
  Comparison bias{"dbias of every sequence and head", 0.01}, sink{"dsink, added", 0.03};
  for (int64_t head = 0; head < heads_q; ++head) {
    double grad_sink = 1;
    for (int64_t i = 0; i < batch; ++i) {
      const reference::Result result = attention(s, i, head);
      q.add(s.grad_q.rows(i, head, s.lengths_q[i]), result.grad_q);
      k.add(s.grad_k.rows(i, head, s.lengths_k[i]), result.grad_k);
      v.add(s.grad_v.rows(i, head, s.lengths_k[i]), result.grad_v);
      grad_sink += result.grad_sink;
      for (int64_t row = 0; s.bwd.has_dbias && row < s.lengths_q[i]; ++row) {
        const int64_t place =
            i * s.bwd.batch_stride_dbias + head * s.bwd.nhead_stride_dbias + row * s.bias_row;
        for (int64_t key = 0; key < s.lengths_k[i]; ++key) {
          const std::uint16_t word = s.grad_bias.host[static_cast<std::size_t>(place + key)];
          bias.add({reference::value_of(word, reference::Format::bf16)},
                   {result.grad_bias[static_cast<std::size_t>(row * s.lengths_k[i] + key)]});
        }
      }
    }
    sink.add({s.grad_sinks.host[head]}, {grad_sink});
  }
  bool good = q.good(s.c) & k.good(s.c) & v.good(s.c);
  if (s.bwd.has_dbias) good &= bias.good(s.c);
  if (s.c.sinks) good &= sink.good(s.c);
  good &= only_rows_written(s, s.grad_q, s.lengths_q, "dq");
  good &= only_rows_written(s, s.grad_k, s.lengths_k, "dk");
  return only_rows_written(s, s.grad_v, s.lengths_k, "dv") && good;
}

}  // namespace test
