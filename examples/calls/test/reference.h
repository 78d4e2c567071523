// Attention with plain loops in double precision, one sequence at a time, with its own 16-bit conversions and
// dropout mask. None of it is Regard's code.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace reference {

/// One query head of one sequence; matrices are row-major.
struct Head {
  std::int64_t rows, keys, dim;
  std::vector<double> q, k, v, grad_o;
  double scale;
  std::function<bool(std::int64_t, std::int64_t)> sees;
  std::function<double(std::int64_t, std::int64_t)> bias;
  std::function<double(std::int64_t, std::int64_t)> kept;  // 0, or the factor of a kept weight
  double sink = -std::numeric_limits<double>::infinity();  // another logit in the denominator
  double softcap = 0;                                      // forward only; 0 is none
};

struct Result {
  std::vector<double> o, lse, grad_q, grad_k, grad_v, grad_bias;
  double grad_sink = 0;
};

Result attention(const Head& head);

/// The factor of a weight under dropout with this probability, as Regard's docs/semantics.md defines it.
double kept(std::uint64_t seed, std::uint64_t offset, double probability, std::uint32_t sequence,
            std::uint32_t head, std::uint32_t row, std::uint32_t column);

enum class Format { fp16, bf16 };
std::uint16_t rounded(double value, Format format);
double value_of(std::uint16_t bits, Format format);

}  // namespace reference
