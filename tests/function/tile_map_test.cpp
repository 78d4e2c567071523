// The reader of a map of tiles against a search through all of its tiles.
#include "kernels/tile_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace regard {
namespace {

/// Maps of some matrices, most of whose tiles are unseen, mixed or whole. What pads them is neither.
class RandomMaps {
 public:
  RandomMaps(unsigned seed, i64 sq, i64 sk, i64 matrices)
      : random_(seed),
        sq_(sq),
        sk_(sk),
        often_(static_cast<unsigned>(random_() % 3)),
        words_(static_cast<std::size_t>(matrices * TileMap::size(sq, sk)), 0x5a5a5a5a5a5a5a5a) {
    for (i64 matrix = 0; matrix < matrices; ++matrix) {
      const TileMap map = of(matrix);
      for (i32 row = 0; row < map_tiles(sq); ++row)
        for (i32 key = 0; key < map_tiles(sk); ++key) {
          states_.push_back(state());
          map.set(row, key, states_.back());
        }
    }
  }

  TileMap of(i64 matrix) { return {words_.data() + matrix * TileMap::size(sq_, sk_), sq_, sk_}; }
  std::vector<u64>& words() { return words_; }

  /// That of a row and a key.
  TileState at(i64 matrix, i32 row, i32 key) const {
    return states_[static_cast<std::size_t>((matrix * map_tiles(sq_) + row / map_tile) * map_tiles(sk_) +
                                            key / map_tile)];
  }

 private:
  TileState state() {
    static constexpr TileState states[] = {unseen_tile, mixed_tile, whole_tile};
    return random_() % 8 == 0 ? states[random_() % 3] : states[often_];
  }

  std::mt19937 random_;
  i64 sq_, sk_;
  unsigned often_;
  std::vector<u64> words_;
  std::vector<TileState> states_;
};

struct Found {
  i32 first, end;
  bool whole = true;
};

/// `state(across, along)` of an element of the lines [begin, end) across and one along them, one by one.
template <class State>
Found search(i32 lines_begin, i32 lines_end, i32 begin, i32 end, const State& state) {
  Found found{end, begin};
  for (i32 along = begin; along < end; ++along) {
    bool seen = false;
    for (i32 across = lines_begin; across < lines_end; ++across) {
      seen |= state(across, along) != unseen_tile;
      found.whole &= state(across, along) == whole_tile;
    }
    if (!seen) continue;
    found.first = std::min(found.first, along);
    found.end = along + 1;
  }
  return found;
}

void expect_equal(const TileLines& lines, i32 begin, i32 end, const Found& expected) {
  ASSERT_TRUE(lines.exist());
  EXPECT_EQ(lines.first_seen(begin, end), expected.first);
  EXPECT_EQ(lines.end_of_seen(begin, end), expected.end);
  EXPECT_EQ(lines.whole(begin, end), expected.whole);
}

TEST(TileMap, TilesOfAnySizeAreFoundInBothDirections) {
  std::mt19937 random(7);
  const auto pick = [&random](i32 from, i32 to) { return std::uniform_int_distribution(from, to)(random); };
  for (unsigned seed = 0; seed < 24; ++seed) {
    const i32 sq = pick(1, 1300), sk = pick(1, 1300);
    RandomMaps maps(seed, sq, sk, 2);
    for (int i = 0; i < 6; ++i) {
      const i64 matrix = pick(0, 1);
      const TileMap map = maps.of(matrix);
      const i32 row = pick(0, sq - 1), end_row = std::min(sq, row + pick(1, 200)), key = pick(0, sk - 1),
                end_key = std::min(sk, key + pick(1, 200));
      const i32 along_key = pick(0, sk - 1), along_row = pick(0, sq - 1);
      SCOPED_TRACE(testing::Message()
                   << seed << " " << row << " " << end_row << " " << key << " " << end_key);
      const auto state = [&](i32 r, i32 k) { return maps.at(matrix, r, k); };
      expect_equal(map.of_rows(row, end_row), along_key, sk, search(row, end_row, along_key, sk, state));
      expect_equal(map.of_rows(row, end_row), 0, key + 1, search(row, end_row, 0, key + 1, state));
      const auto turned = [&](i32 k, i32 r) { return maps.at(matrix, r, k); };
      expect_equal(map.of_keys(key, end_key), along_row, sq, search(key, end_key, along_row, sq, turned));
      expect_equal(map.of_keys(key, end_key), 0, row + 1, search(key, end_key, 0, row + 1, turned));
      EXPECT_EQ(map.of_rows(row, end_row).whole(key, end_key),
                search(row, end_row, key, end_key, state).whole);
    }
  }
}

/// Nothing is seen after the last tile, nor in an empty range, whatever pads the lines.
TEST(TileMap, NothingIsSeenWhereThereIsNothing) {
  std::vector<u64> words(static_cast<std::size_t>(TileMap::size(100, 700)), ~u64{0});
  const TileMap map(words.data(), 100, 700);
  for (i32 row = 0; row < 2; ++row)
    for (i32 key = 0; key < 11; ++key) map.set(row, key, unseen_tile);
  EXPECT_EQ(map.of_rows(0, 100).first_seen(0, 700), 700);
  EXPECT_EQ(map.of_rows(0, 100).end_of_seen(0, 700), 0);
  EXPECT_EQ(map.of_keys(0, 700).first_seen(70, 100), 100);
  EXPECT_EQ(map.of_rows(0, 100).first_seen(700, 700), 700);
  EXPECT_EQ(map.of_rows(0, 100).end_of_seen(300, 300), 300);
  EXPECT_FALSE(map.of_rows(100, 100).exist());
}

TEST(TileMap, MatricesThatShareBitsShareTheMap) {
  RandomMaps maps(1, 200, 300, 6);
  std::vector<u32> words(10 + 2 * maps.words().size());
  std::memcpy(words.data() + 10, maps.words().data(), 8 * maps.words().size());
  Arguments a{};
  a.b = 3, a.hq = 2, a.sq = 200, a.sk = 300;
  EXPECT_FALSE(tile_map_of(a, 0, 0).of_rows(0, 1).exist());
  const auto map_of = [&](i64 batch_stride, i64 head_stride, i64 batch, i64 head) {
    a.bits = {words.data(), batch_stride, head_stride, 0};
    a.tile_map = 10;
    return tile_map_of(a, batch, head).words - reinterpret_cast<u64*>(words.data() + 10);
  };
  const i64 size = TileMap::size(200, 300);
  EXPECT_EQ(map_of(7, 7, 2, 1), 5 * size);
  EXPECT_EQ(map_of(7, 0, 2, 1), 2 * size);
  EXPECT_EQ(map_of(0, 7, 2, 1), 1 * size);
  EXPECT_EQ(map_of(0, 0, 2, 1), 0);
}

}  // namespace
}  // namespace regard
