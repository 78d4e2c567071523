// The random numbers of dropout: they match the documentation, and they are random.
#include "kernels/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "support/dropout.h"

namespace regard::test {
namespace {

/// The vectors for philox4x32 with 7 rounds from its authors' library, Random123.
TEST(Philox, GivesTheKnownAnswers) {
  struct Known {
    PhiloxWords counter;
    u64 key;
    PhiloxWords answer;
  };
  const Known all[] = {
      {{0, 0, 0, 0}, 0, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
      {{~0u, ~0u, ~0u, ~0u}, ~0ull, {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       0x299f31d0a4093822,
       {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
  };
  for (const Known& known : all) {
    u32 words[4];
    std::ranges::copy(known.counter, words);
    philox::random_bytes(words, known.key, philox::WideMultiply{});
    EXPECT_TRUE(std::ranges::equal(words, known.answer));
  }
}

philox::Random random_of(const DropoutHead& of) {
  return {of.seed, of.offset, of.sequence, of.head, philox::WideMultiply{}};
}

TEST(Dropout, BytesAreThoseOfTheDocumentation) {
  const std::uint64_t words[] = {0, 1, 7, 1ull << 31, 1ull << 32, 3ull << 32, (1ull << 63) + 5, ~0ull};
  const i64 numbers[] = {0, 1, 63, 64, 1000003, (1ll << 31) - 64, (1ll << 31) - 2, (1ll << 31) - 1};
  for (const std::uint64_t seed : words)
    for (const std::uint64_t offset : words)
      for (const i64 other : numbers)
        for (const i64 number : numbers) {
          const DropoutHead of{seed, offset, static_cast<u32>(number), static_cast<u32>(other)};
          for (const i64 row : {number, other})
            EXPECT_EQ(random_of(of).byte(row, number), dropout_byte(of, row, number))
                << seed << ' ' << offset << ' ' << other << ' ' << number;
        }
}

/// The bytes of some rows and columns of a head, eight columns per word.
class Bytes {
 public:
  Bytes(const DropoutHead& of, i64 rows, i64 columns, i64 first_row = 0, i64 first_column = 0)
      : columns_(columns) {
    const philox::Random random = random_of(of);
    for (i64 row = 0; row < rows; ++row)
      for (i64 column = 0; column < columns; ++column)
        bytes_.push_back(random.byte(first_row + row, first_column + column));
  }

  const std::vector<u8>& all() const { return bytes_; }

  /// How many standard deviations the number of equal bits in two sets of the same size is from its mean.
  static double deviation(const Bytes& a, const Bytes& b) { return deviation(a, b, 0, 0); }
  /// The same for each byte and the one `row` rows and `column` columns after it.
  double neighbours(i64 row, i64 column) const { return deviation(*this, *this, row, column); }

 private:
  static double deviation(const Bytes& a, const Bytes& b, i64 row, i64 column) {
    const i64 columns = a.columns_, rows = std::ssize(a.bytes_) / columns;
    i64 bits = 0, different = 0;
    for (i64 i = 0; i + row < rows; ++i)
      for (i64 j = 0; j + column < columns; ++j) {
        const auto first = static_cast<std::size_t>(i * columns + j);
        const auto second = static_cast<std::size_t>((i + row) * columns + j + column);
        different += std::popcount(static_cast<u8>(a.bytes_[first] ^ b.bytes_[second]));
        bits += 8;
      }
    return static_cast<double>(2 * different - bits) / std::sqrt(static_cast<double>(bits));
  }

  i64 columns_;
  std::vector<u8> bytes_;
};

// Nothing here is random from run to run, so a test that passes once always passes. By chance one number in
// two million is beyond the limit.
constexpr double limit = 5;

TEST(Dropout, AllBytesAreAsFrequent) {
  for (const DropoutHead of : {DropoutHead{0, 0, 0, 0}, DropoutHead{11, 3ull << 32, 1, 2}}) {
    const Bytes drawn(of, 512, 512);
    const double count = static_cast<double>(drawn.all().size());
    std::vector<double> of_byte(256);
    for (const u8 byte : drawn.all()) ++of_byte[byte];
    double chi_square = 0, kept = 0;
    for (int keep = 0; keep < 256; ++keep) {
      const double times = of_byte[static_cast<std::size_t>(keep)], mean = count / 256;
      chi_square += (times - mean) * (times - mean) / mean;
      kept += times;
      const double expected = mean * (keep + 1), variance = expected * (255 - keep) / 256;
      EXPECT_LE(std::fabs(kept - expected), limit * std::sqrt(variance)) << keep;
    }
    EXPECT_LT(std::fabs(chi_square - 255) / std::sqrt(2.0 * 255), limit);
  }
}

TEST(Dropout, NeighboursInAHeadAreUnrelated) {
  for (const DropoutHead of : {DropoutHead{0, 0, 0, 0}, DropoutHead{~0ull, 1ull << 32, 3, 1}})
    for (const i64 first : {i64{0}, (i64{1} << 31) - 200}) {
      const Bytes drawn(of, 200, 200, first, first / 64 * 64);
      for (const i64 row : {0, 1, 2, 3, 16, 64})
        for (const i64 column : {0, 1, 2, 3, 8, 9, 16, 63, 64, 65, 128})
          if (row + column > 0) {
            EXPECT_LT(std::fabs(drawn.neighbours(row, column)), limit)
                << first << ' ' << row << ' ' << column;
          }
    }
}

/// Each against every other: including offsets that differ by multiples of 2^32, and sequence 1 against a
/// later head of sequence 0.
TEST(Dropout, SeedsOffsetsSequencesAndHeadsAreUnrelated) {
  std::vector<DropoutHead> heads;
  for (const std::uint64_t offset : {0ull, 1ull, 1ull << 32, 2ull << 32, 5ull << 32, 1ull << 63, ~0ull})
    for (const u32 sequence : {0u, 1u, 2u})
      for (const u32 head : {0u, 1u, 2u, 4u, 5u}) heads.push_back({1, offset, sequence, head});
  for (const std::uint64_t seed :
       {0ull, 2ull, 1ull << 31, 1ull << 32, 1ull + (1ull << 32), 1ull << 63, ~0ull})
    for (const u32 head : {0u, 1u, 2u}) heads.push_back({seed, 0, 0, head});
  std::vector<Bytes> drawn;
  for (const DropoutHead& of : heads) drawn.emplace_back(of, 16, 128);
  for (std::size_t i = 0; i < heads.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const DropoutHead &a = heads[i], &b = heads[j];
      EXPECT_LT(std::fabs(Bytes::deviation(drawn[i], drawn[j])), limit)
          << a.seed << ' ' << a.offset << ' ' << a.sequence << ' ' << a.head << " and " << b.seed << ' '
          << b.offset << ' ' << b.sequence << ' ' << b.head;
    }
}

}  // namespace
}  // namespace regard::test
