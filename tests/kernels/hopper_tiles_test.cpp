// Which tiles a block of the Hopper kernel processes (kernels/sm90/work.h), computed on the host and checked
// against the rows and keys one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

// Provides what the header needs from a device compiler and from a rendered kernel, with the kernels'
// headers in a separate namespace.
#define regard regard_kernel_headers
#define __device__
#define __host__
#define __forceinline__ inline
namespace regard {
enum class DType { fp32, bf16, fp16, fp8, fp8_e5m2 };
enum class Mask { none, window };
using std::max;
using std::min;
inline unsigned long long __cvta_generic_to_shared(const void*) {
  return 0;
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int) {
  return x;
}
inline struct {
  unsigned x;
} threadIdx;
namespace config {
constexpr long long d = 64, block_q = 24, block_k = 16, pack_gqa = 0, split = 1, cluster = 0, gather = 0;
constexpr bool paged = false, bits = false, ranges = false;
constexpr DType dtype = DType::bf16;
constexpr Mask mask = Mask::window;
}  // namespace config
namespace target {
constexpr long long wave = 32;
}
}  // namespace regard
#include "kernels/sm90/work.h"

namespace regard {
namespace {

constexpr int rows_of_warpgroup = 8;

struct Block {
  Sequence32 sequence;
  Sm90ForwardArguments arguments;
  int first_row = 0, part = 0;

  /// All keys in one part.
  static Block of(int sq, int sk) {
    Block block{{0, 0, 0, sq, sk}, {}};
    block.arguments.split_keys = std::max(sk, 1);
    return block;
  }

  int first_key() const { return part * static_cast<int>(arguments.split_keys); }
  Window32 window() const {
    return window_of(Sm90ForwardWork{{part, first_key()}, sequence, 0, first_row}, arguments);
  }
  /// The window of some of the block's rows, or of all.
  BlockWindow window_of_rows(int first, int count) const { return {first, count, window()}; }
  BlockWindow window_of_rows() const { return window_of_rows(first_row, config::block_q); }
  int end_row() const { return std::min(first_row + static_cast<int>(config::block_q), sequence.sq); }
  bool sees(int row, int k) const {
    const Range32 keys = window().keys_of(row);
    return k < keys.end && (k >= keys.begin || k < window().sinks);
  }
  std::vector<int> order() const {
    const KeyTiles tiles = tiles_of(window_of_rows(), window());
    std::vector<int> found;
    for (int tile = tiles.start(); tile >= 0; tile = tiles.next(tile)) found.push_back(tile);
    return found;
  }
};

/// How often `row` sees a key of `tile`.
int seen(const Block& block, int row, int tile) {
  int count = 0;
  for (int k = tile * block_k; k < (tile + 1) * block_k; ++k) count += block.sees(row, k);
  return count;
}

/// Checks `rows` rows from `first_row` on, which are all of the block's rows or some of them.
void check_seen(const Block& block, int first_row, int rows) {
  SCOPED_TRACE(testing::Message() << rows << " rows from " << first_row << " on");
  const VisibleTiles tiles = visible_tiles_of(block.window_of_rows(first_row, rows), block.window());
  const std::vector<int> order = block.order();
  for (int row = first_row; row < std::min(first_row + rows, block.end_row()); ++row) {
    int before = 0;
    for (int tile : order) {
      const int count = seen(block, row, tile);
      EXPECT_TRUE(count == 0 || tile < tiles.end) << "row " << row << " sees tile " << tile;
      EXPECT_TRUE(count == block_k || !tiles.is_whole(tile))
          << "tile " << tile << " is not whole for row " << row;
      const bool relies = tile < tiles.begun && tiles.is_whole(tile);
      EXPECT_TRUE(!relies || before > 0) << "row " << row << " has seen no key";
      before += count;
    }
  }
}

void check(const Block& block) {
  const std::vector<int> order = block.order();
  EXPECT_TRUE(std::is_sorted(order.rbegin(), order.rend()));
  const std::set<int> worked_on(order.begin(), order.end());
  EXPECT_EQ(worked_on.size(), order.size());
  for (int row = block.first_row; row < block.end_row(); ++row)
    for (int tile = 0; tile * block_k < block.arguments.split_keys; ++tile)
      EXPECT_TRUE(seen(block, row, tile) == 0 || worked_on.count(tile) == 1)
          << "tile " << tile << " is left out";
  check_seen(block, block.first_row, block_q);
  for (int first = block.first_row; first < block.first_row + block_q; first += rows_of_warpgroup)
    check_seen(block, first, rows_of_warpgroup);
}

/// Calls `test` with blocks of all sorts of sequences and masks.
template <class Test>
void for_many_blocks(const Test& test) {
  std::mt19937 random(std::random_device{}());
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  for (int i = 0; i < 4000 && !testing::Test::HasFailure(); ++i) {
    Block block = Block::of(1 + up_to(90), up_to(120));
    Sm90ForwardArguments& a = block.arguments;
    a.top_left = up_to(1) != 0;
    a.window_left = up_to(3) == 0 ? -1 : up_to(100);
    a.window_right = up_to(3) == 0 ? -1 : up_to(60);
    a.sink_tokens = up_to(1) * up_to(40);
    SCOPED_TRACE(testing::Message() << "sq=" << block.sequence.sq << " sk=" << block.sequence.sk << " window "
                                    << a.window_left << "," << a.window_right << " sinks " << a.sink_tokens
                                    << (a.top_left ? " top left" : ""));
    for (; block.first_row < block.sequence.sq; block.first_row += block_q) test(block);
  }
}

TEST(HopperTiles, HoldWhatTheRowsOfABlockSee) {
  for_many_blocks(check);
}

TEST(HopperTiles, OfPartsOfTheKeysHoldTogetherWhatTheRowsSee) {
  for_many_blocks([](const Block& whole) {
    Block block = whole;
    block.arguments.split_keys = 2 * block_k;
    // The last part is past the keys, like those of a short sequence next to a long one.
    for (; block.first_key() < whole.sequence.sk + block.arguments.split_keys; ++block.part) {
      SCOPED_TRACE(testing::Message() << "part " << block.part);
      check(block);
      for (int row = block.first_row; row < block.end_row(); ++row)
        for (int k = 0; k < block.arguments.split_keys; ++k)
          EXPECT_EQ(block.sees(row, k), whole.sees(row, block.first_key() + k))
              << "row " << row << " key " << k;
    }
  });
}

// A packed sequence must get the same bits from the kernel without a mask, which it uses alone, and from the
// one with a window that hides none of it, which it uses next to a longer one.
TEST(HopperTiles, AreThoseOfNoMaskWhereAWindowHidesNothing) {
  for (int sq = 1; sq < 80; ++sq) {
    const int sk = 50 + sq;
    Block hidden_nothing = Block::of(sq, sk), unbounded = hidden_nothing;
    hidden_nothing.arguments.window_left = sk - 1;
    hidden_nothing.arguments.window_right = unbounded.arguments.window_right =
        unbounded.arguments.window_left = -1;
    for (int row = 0; row < sq; row += block_q) {
      hidden_nothing.first_row = unbounded.first_row = row;
      EXPECT_EQ(hidden_nothing.order(), unbounded.order());
      const VisibleTiles b = visible_tiles_of(unbounded.window_of_rows(), unbounded.window());
      for (int some = row; some < std::min(row + static_cast<int>(block_q), sq); some += rows_of_warpgroup) {
        const VisibleTiles a =
            visible_tiles_of(hidden_nothing.window_of_rows(some, rows_of_warpgroup), hidden_nothing.window());
        for (int tile : unbounded.order())
          EXPECT_EQ(a.is_whole(tile), b.is_whole(tile)) << "sq=" << sq << " row " << some;
        EXPECT_EQ(a.begun, b.begun);
        EXPECT_EQ(a.end, b.end);
      }
    }
  }
}

}  // namespace
}  // namespace regard
