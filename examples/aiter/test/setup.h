// A call as AITER's consumers make it: tensors whose strides never match by accident, and the structs that
// pass them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "memory.h"
#include "mha_bwd.h"
#include "mha_fwd.h"
#include "reference.h"

namespace test {

constexpr std::int64_t batch = 2, heads_q = 4, dim = 64, room_q = 44, room_k = 60;
constexpr float scale = 0.2f;
constexpr std::uint64_t seed = 0x0123456789ABCDEF, offset = 1ull << 33;

struct Case {
  const char* name;
  std::int64_t heads_k;
  bool varlen;
  mask_enum mask;
  int left, right, sink_tokens;
  bias_enum bias;
  bool shared_bias;  // one for all sequences and heads
  float softcap, dropout;
  bool sinks;
};

/// [batch, room, heads, dim] in bf16, or packed: [tokens, heads, dim].
struct Tensor {
  Tensor(bool varlen, std::int64_t room, std::int64_t heads);
  void fill(unsigned seed);
  std::int64_t place(std::int64_t sequence, std::int64_t row, std::int64_t head) const {
    return sequence * start + row * stride + head * nhead_stride;
  }
  std::vector<double> rows(std::int64_t sequence, std::int64_t head, std::int64_t count) const;

  std::int64_t nhead_stride, stride, batch_stride, start;
  Memory<std::uint16_t> memory;
};

class Setup {
 public:
  explicit Setup(const Case& c);

  /// Fills the outputs of forward, or of backward, with NaN; the gradient of sinks with 1, because the call
  /// adds to it.
  void clear_forward();
  void clear_backward();

  float forward() { return aiter::mha_fwd(fwd, {}); }
  float backward() { return aiter::mha_bwd(bwd, {}); }
  float split();

  /// All outputs of forward, or of backward, as bytes.
  std::vector<std::uint8_t> forward_outputs();
  std::vector<std::uint8_t> backward_outputs();

  Case c;
  std::vector<std::int64_t> lengths_q{40, 17}, lengths_k{57, 30};
  Tensor q, k, v, o, grad_o, grad_q, grad_k, grad_v, spare;
  std::int64_t lse_nhead, lse_batch, bias_row, bias_nhead, bias_batch;
  Memory<float> lse, sinks, other_sinks, grad_sinks, slopes, factors;
  Memory<std::uint16_t> bias, grad_bias;
  Memory<std::uint64_t> seeds;
  Memory<std::int32_t> starts_q, starts_k, sums_q, sums_k, counts_q, counts_k, other_counts;

  aiter::mha_fwd_args fwd{};
  aiter::mha_bwd_args bwd{};
  aiter::mha_fwd_splitkv_args splitkv{};
  struct {
    std::string data_type = "bf16";
    bool varlen;
    mask_enum mask;
    bias_enum bias;
    bool has_lse = true, has_sink;
  } traits;

 private:
  void set_forward();
  void set_backward();
  void set_splitkv();
};

/// Whether all outputs match those of loops in double precision; prints a line for each tensor.
bool compare_forward(Setup& s);
bool compare_backward(Setup& s);

}  // namespace test
