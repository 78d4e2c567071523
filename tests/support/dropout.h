// The dropout mask as docs/semantics.md defines it: once more, and independently of kernels/philox.h.
#pragma once

#include <array>
#include <cstdint>

namespace regard::test {

using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxWords = std::array<std::uint32_t, 4>;

inline PhiloxWords philox(PhiloxKey k, PhiloxWords c) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  for (int round = 0; round < 7; ++round) {
    const std::uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    c = {high(b) ^ c[1] ^ k[0], low(b), high(a) ^ c[3] ^ k[1], low(a)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

/// One head of one sequence of a call.
struct DropoutHead {
  std::uint64_t seed, offset;
  std::uint32_t sequence, head;
};

inline int dropout_byte(const DropoutHead& of, std::int64_t row, std::int64_t column) {
  const auto halves = [](std::uint64_t x) {
    return PhiloxKey{static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(x >> 32)};
  };
  const PhiloxKey offset = halves(of.offset);
  const PhiloxWords w = philox(halves(of.seed), {offset[0], offset[1], of.sequence, of.head});
  const PhiloxWords x =
      philox({w[0], w[1]}, {w[2], w[3], static_cast<std::uint32_t>(row),
                            static_cast<std::uint32_t>(4 * (column / 64) + column % 8 / 2)});
  const auto n = static_cast<std::size_t>(2 * (column % 64 / 8) + column % 2);
  return static_cast<int>(x[n / 4] >> 8 * (n % 4) & 255);
}

}  // namespace regard::test
