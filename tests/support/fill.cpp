#include "support/fill.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace regard::test {
namespace {

/// In [0, 1). With some compilers, the standard library's function takes a long double logarithm for each
/// number, which was a fifth of the time of the sanitized kernel tests.
double canonical(Random& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

}  // namespace

std::vector<double> random_offsets(Random& random, std::int64_t b, std::int64_t longest,
                                   std::int64_t tokens) {
  std::vector<double> offsets{0};
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < b; ++i) {
    const std::int64_t most = std::min(longest, tokens - used);
    used += i == 0 ? most : i == 1 ? 0 : between(random, 0, most);
    offsets.push_back(static_cast<double>(used));
  }
  return offsets;
}

std::vector<double> random_lengths(Random& random, const std::vector<std::int64_t>& physical) {
  std::vector<double> lengths;
  for (const std::int64_t length : physical)
    lengths.push_back(static_cast<double>(between(random, 0, length)));
  lengths[0] = static_cast<double>(physical[0]);
  if (lengths.size() > 2) lengths.back() = 0;
  return lengths;
}

std::vector<double> random_ranges(Random& random, std::int64_t rows, std::int64_t sk) {
  std::vector<double> ranges;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t lo = between(random, 0, sk / 2);
    const std::int64_t hi = between(random, 0, 9) == 0 ? lo : between(random, lo, sk);
    ranges.push_back(static_cast<double>(lo));
    ranges.push_back(static_cast<double>(hi));
  }
  return ranges;
}

std::vector<double> random_bits(Random& random, std::int64_t rows, std::int64_t words) {
  std::vector<double> bits;
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool empty_row = between(random, 0, 15) == 0;
    for (std::int64_t word = 0; word < words; ++word) {
      const bool empty = empty_row || between(random, 0, 4) == 0;
      const auto either = static_cast<std::uint32_t>(random() | random());
      bits.push_back(empty ? 0 : either);
    }
  }
  return bits;
}

std::vector<double> normal(Random& random, std::int64_t count, double scale, double offset) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); i += 2) {
    // Box and Muller: two normal deviates from a radius and an angle.
    const double radius = scale * std::sqrt(-2 * std::log(1 - canonical(random)));
    const double angle = 2 * std::numbers::pi * canonical(random);
    values[i] = radius * std::cos(angle) + offset;
    if (i + 1 < values.size()) values[i + 1] = radius * std::sin(angle) + offset;
  }
  return values;
}

std::vector<double> random_lse(Random& random, std::int64_t count, std::int64_t tokens) {
  std::vector<double> values = normal(random, count, 3);
  for (std::int64_t i = 0; i < count; ++i)
    if (i % tokens % 5 == 4 || between(random, 0, 3) == 0) values[static_cast<std::size_t>(i)] = -INFINITY;
  return values;
}

std::vector<double> whole_numbers(Random& random, std::int64_t count, std::int64_t low, std::int64_t high) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<double>(between(random, low, high));
  return values;
}

std::vector<double> uniform(Random& random, std::int64_t count, double low, double high) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = low + (high - low) * canonical(random);
  return values;
}

}  // namespace regard::test
