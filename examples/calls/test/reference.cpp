#include "reference.h"

#include <array>
#include <cmath>
#include <limits>

namespace reference {
namespace {

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

using Words = std::array<std::uint32_t, 4>;

Words philox(std::uint32_t key0, std::uint32_t key1, Words c) {
  for (int round = 0; round < 7; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key1, static_cast<std::uint32_t>(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c;
}

std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

int mantissa_bits(Format format) {
  return format == Format::bf16 ? 7 : 10;
}
int bias_of_exponent(Format format) {
  return format == Format::bf16 ? 127 : 15;
}

}  // namespace

Result attention(const Head& head) {
  const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  const std::int64_t d = head.dim;
  Result result;
  result.o.resize(size(head.rows, d));
  result.lse.resize(size(head.rows, 1), -std::numeric_limits<double>::infinity());
  result.grad_q.resize(size(head.rows, d));
  result.grad_k.resize(size(head.keys, d));
  result.grad_v.resize(size(head.keys, d));
  result.grad_bias.resize(size(head.rows, head.keys));
  for (std::int64_t i = 0; i < head.rows; ++i) {
    std::vector<double> weights(static_cast<std::size_t>(head.keys));
    double sum = std::exp(head.sink);
    for (std::int64_t j = 0; j < head.keys; ++j) {
      if (!head.sees(i, j)) continue;
      double score = head.scale * dot(&head.q[i * d], &head.k[j * d], d);
      if (head.softcap > 0) score = head.softcap * std::tanh(score / head.softcap);
      weights[j] = std::exp(score + head.bias(i, j));
      sum += weights[j];
    }
    if (sum == 0) continue;
    result.lse[i] = std::log(sum);
    for (std::int64_t j = 0; j < head.keys; ++j) {
      weights[j] /= sum;
      const double weight = weights[j] * head.kept(i, j);
      for (std::int64_t c = 0; c < d; ++c) {
        result.o[i * d + c] += weight * head.v[j * d + c];
        result.grad_v[j * d + c] += weight * head.grad_o[i * d + c];
      }
    }
    const double all = dot(&result.o[i * d], &head.grad_o[i * d], d);
    result.grad_sink -= std::exp(head.sink) / sum * all;
    for (std::int64_t j = 0; j < head.keys; ++j) {
      const double grad_weight = head.kept(i, j) * dot(&head.grad_o[i * d], &head.v[j * d], d);
      const double grad_score = weights[j] * (grad_weight - all);
      result.grad_bias[i * head.keys + j] = grad_score;
      for (std::int64_t c = 0; c < d; ++c) {
        result.grad_q[i * d + c] += head.scale * grad_score * head.k[j * d + c];
        result.grad_k[j * d + c] += head.scale * grad_score * head.q[i * d + c];
      }
    }
  }
  return result;
}

double kept(std::uint64_t seed, std::uint64_t offset, double probability, std::uint32_t sequence,
            std::uint32_t head, std::uint32_t row, std::uint32_t column) {
  const Words w = philox(low(seed), high(seed), {low(offset), high(offset), sequence, head});
  const Words x = philox(w[0], w[1], {w[2], w[3], row, 4 * (column / 64) + column % 8 / 2});
  const std::uint32_t n = 2 * (column % 64 / 8) + column % 2;
  const double keep = std::floor((1 - probability) * 255);
  return (x[n / 4] >> 8 * (n % 4) & 255) <= keep ? 256 / (keep + 1) : 0;
}

std::uint16_t rounded(double value, Format format) {
  const int bits = mantissa_bits(format);
  if (std::fabs(value) < std::ldexp(1, 1 - bias_of_exponent(format))) return 0;  // subnormal
  int exponent = 0;
  const double fraction = 2 * std::frexp(std::fabs(value), &exponent);  // in [1, 2)
  // A carry out of the mantissa goes into the exponent. No value here is large enough to overflow.
  const double whole = std::nearbyint(std::ldexp(fraction - 1, bits));
  const int magnitude = ((exponent - 1 + bias_of_exponent(format)) << bits) + static_cast<int>(whole);
  return static_cast<std::uint16_t>(magnitude | (value < 0 ? 0x8000 : 0));
}

double value_of(std::uint16_t word, Format format) {
  const int bits = mantissa_bits(format), magnitude = word & 0x7FFF, exponent = magnitude >> bits;
  const int mantissa = magnitude & ((1 << bits) - 1), lowest = 1 - bias_of_exponent(format);
  if (exponent == 2 * bias_of_exponent(format) + 1) return std::numeric_limits<double>::quiet_NaN();
  const double value = exponent == 0 ? std::ldexp(mantissa, lowest - bits)
                                     : std::ldexp(mantissa + (1 << bits), exponent - 1 + lowest - bits);
  return word & 0x8000 ? -value : value;
}

}  // namespace reference
