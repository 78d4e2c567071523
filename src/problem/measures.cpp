// Numbers derived from a problem: sizes of types, the scale, visible pairs, operations.
#include <algorithm>
#include <cmath>

#include "problem/problem.h"

namespace regard {
namespace {

/// Sum of min(max(i + start, 0), limit) over i in [0, rows): exact in closed form, as there can be billions
/// of rows.
double clamped_sum(std::int64_t rows, std::int64_t start, std::int64_t limit) {
  const auto inside = [&](std::int64_t row) { return std::clamp<std::int64_t>(row, 0, rows); };
  if (limit <= 0) return 0;
  const std::int64_t first = inside(-start);        // first row above 0
  const std::int64_t full = inside(limit - start);  // first row at the limit
  const double ramp_rows = static_cast<double>(full - first);
  const double ramp =
      ramp_rows * (static_cast<double>(first + start) + static_cast<double>(full - 1 + start)) / 2;
  return (full > first ? ramp : 0) + static_cast<double>(rows - full) * static_cast<double>(limit);
}

/// Row i sees keys from i + diagonal - left to i + diagonal + right; negative: without a limit.
struct Edges {
  std::int64_t diagonal, left, right;

  explicit Edges(const Problem& p) {
    const bool causal = p.mask == Mask::causal || p.mask == Mask::causal_top_left;
    const bool top_left = p.mask == Mask::causal_top_left || p.mask == Mask::window_top_left;
    const bool window = p.mask == Mask::window || p.mask == Mask::window_top_left;
    diagonal = top_left ? 0 : p.sk - p.sq;
    left = window ? p.window_left : -1;
    right = causal ? 0 : window ? p.window_right : -1;
  }
};

}  // namespace

std::size_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8:
    case DType::fp8_e5m2:
    case DType::fp8_fnuz:
    case DType::fp8_e5m2_fnuz:
    case DType::int8:
      return 1;
  }
  return 0;
}

DType default_out(DType input) {
  return bytes_of(input) == 1 ? DType::bf16 : input;
}

DType default_bias_type(DType input) {
  return bytes_of(input) == 1 ? DType::fp32 : input;
}

double scale_of(const Problem& p) {
  return p.scale ? *p.scale : 1.0 / std::sqrt(static_cast<double>(p.d));
}

int dropout_keep_of(const Problem& p) {
  return static_cast<int>(std::floor((1.0 - p.dropout) * 255.0));
}

double keep_scale_of(const Problem& p) {
  return p.keep_scale ? *p.keep_scale : 256.0 / (dropout_keep_of(p) + 1);
}

bool mask_hides_nothing(const Problem& p) {
  if (p.mask == Mask::none) return true;
  const bool causal = p.mask == Mask::causal || p.mask == Mask::causal_top_left;
  const bool top_left = p.mask == Mask::causal_top_left || p.mask == Mask::window_top_left;
  const std::int64_t left = p.window_left, right = causal ? 0 : p.window_right;
  // The first row sees the fewest keys to the right, the last row the fewest to the left. From the
  // bottom-right diagonal these are sq - 1 and sk - 1 away; from the top-left one the other way round.
  const std::int64_t far_left = (top_left ? p.sq : p.sk) - 1, far_right = (top_left ? p.sk : p.sq) - 1;
  return (left == -1 || left >= far_left) && (right == -1 || right >= far_right);
}

bool has_elementwise_bias(Bias bias) {
  return bias != Bias::none && !has_alibi(bias);
}
bool has_batches(Bias bias) {
  return bias == Bias::batch_one || bias == Bias::batch_head;
}
bool has_heads(Bias bias) {
  return bias == Bias::one_head || bias == Bias::batch_head;
}
bool has_alibi(Bias bias) {
  return bias == Bias::alibi || bias == Bias::alibi_batch;
}

double visible_scores(const Problem& p) {
  const Edges e(p);
  // Row i sees [begin, end) and, to the left of it, the sink tokens; all three are clamped linear functions
  // of i.
  const double all = static_cast<double>(p.sq) * static_cast<double>(p.sk);
  const double end = e.right < 0 ? all : clamped_sum(p.sq, e.diagonal + e.right + 1, p.sk);
  const double begin = e.left < 0 ? 0 : clamped_sum(p.sq, e.diagonal - e.left, p.sk);
  const double sink = e.left < 0 ? 0 : clamped_sum(p.sq, e.diagonal - e.left, std::min(p.sink_tokens, p.sk));
  return end - begin + sink;
}

std::int64_t visible_keys(const Problem& p) {
  if (p.sq == 0) return 0;
  const Edges e(p);
  const std::int64_t end =
      e.right < 0 ? p.sk : std::clamp<std::int64_t>(e.diagonal + p.sq + e.right, 0, p.sk);
  const std::int64_t begin = e.left < 0 ? 0 : std::clamp<std::int64_t>(e.diagonal - e.left, 0, end);
  return end - begin + std::min(p.sink_tokens, begin);
}

std::int64_t most_keys_of_row(const Problem& p) {
  const Edges e(p);
  if (e.left < 0 || e.right < 0 || e.left >= p.sk || e.right >= p.sk) return p.sk;
  return std::min(p.sk, e.left + 1 + e.right + std::min(p.sink_tokens, p.sk));
}

double flops(const Problem& p) {
  if (p.pass == Pass::append || p.pass == Pass::merge) return 0;
  const double forward = 2.0 * static_cast<double>(p.b) * static_cast<double>(p.hq) * visible_scores(p) *
                         static_cast<double>(p.d + p.dv);
  return p.pass == Pass::bwd ? 2.5 * forward : forward;
}

}  // namespace regard
