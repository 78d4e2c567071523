// Visibility bits of a mask that is a function, for the stages after this one: 32 keys a word. A block writes
// the words of 64 query rows, 64 keys at a time. Each step of the function is computed once for the rows if
// it depends on them alone, once for the keys likewise, and else for each row; unless intervals already show
// that all rows see all of these keys, or none. The map has the same tiles.
#pragma once

#include "kernels/cpu/generic_scores.h"
#include "kernels/function/interval.h"
#include "kernels/tile_map.h"

namespace regard::generic {

/// The condition of a mask for the rows and keys of a tile.
class MaskFunction : public FunctionRows {
 public:
  /// `memory`: GenericLayout::mask_bytes.
  MaskFunction(const Arguments& a, const FunctionCall* call, float* memory)
      : FunctionRows(a, call, memory),
        row_values_(reinterpret_cast<u32*>(memory) + call->count * keys),
        intervals_(reinterpret_cast<function::Interval*>(row_values_ + call->count * keys)) {}

  /// Computes what depends on the rows alone, for `count` rows from that of the place on.
  void take_rows(FunctionPlace place, i64 count) {
    place.lanes_are_rows = true;
    for (i32 i = 0; i < call().count; ++i) {
      if (step(i).by_key) continue;
      compute(place, nullptr, i);
      __builtin_memcpy(row_values_ + i * keys, row(i), keys * 4);
      intervals_[i] = interval_of(i, count);
    }
  }

  /// Computes what depends on the keys alone. What all rows see of all these keys: [1, 1] everything, [0, 0]
  /// nothing, else [0, 1].
  function::Interval take_keys(const FunctionPlace& place) {
    for (i32 i = 0; i < call().count; ++i) {
      if (!step(i).by_key) continue;
      if (!step(i).by_row) compute(place, nullptr, i);
      intervals_[i] = step(i).by_row ? mixed(i) : interval_of(i, keys);
    }
    return intervals_[call().keep];
  }

  /// The condition of a row of the tile, a bit for each key.
  void write_bits(const FunctionPlace& place, i64 row_of_tile, u32* words) {
    for (i32 i = 0; i < call().count; ++i) {
      if (!step(i).by_row) continue;
      if (step(i).by_key)
        compute(place, nullptr, i);
      else
        fill(row(i), row_values_[i * keys + row_of_tile]);
    }
    const u32* const kept = row(call().keep);
    for (i64 word = 0; word < keys / 32; ++word) words[word] = word_of(kept + 32 * word);
  }

 private:
  const FunctionStep& step(i32 i) const { return call().steps[i]; }

  /// Of the first lanes of a step that was computed.
  function::Interval interval_of(i32 i, i64 count) {
    if (step(i).type == function::Type::real) return function::any_of(step(i).type);
    function::Interval all{function::highest, function::lowest};
    for (i64 lane = 0; lane < count; ++lane) {
      const i64 value = function::signed_of(row(i)[lane]);
      all = {smaller(all.low, value), larger(all.high, value)};
    }
    return all;
  }
  function::Interval mixed(i32 i) const {
    const FunctionStep& one = step(i);
    if (one.kind != function::Kind::operation) return function::any_of(one.type);
    const auto operand = [&](int k) { return intervals_[one.operands[k < one.count ? k : 0]]; };
    return function::of_operation(static_cast<function::Operation>(one.which), one.type, one.operand,
                                  operand(0), operand(1), operand(2));
  }

  /// Conditions of 32 keys, 0 or 1, as bits.
  static u32 word_of(const u32* conditions) {
    Words bits{};
    for (i64 i = 0; i < 32; i += lanes)
      bits |= regard::load<Words>(conditions + i) << (bits_as<Words>(lane_numbers()) + static_cast<u32>(i));
    u32 word = 0;
    for (int lane = 0; lane < lanes; ++lane) word |= bits[lane];
    return word;
  }

  u32* row_values_;                // of steps that depend on the row alone: [step][row]
  function::Interval* intervals_;  // of each step for the rows and keys of the tile
};

class MaskWriter {
 public:
  MaskWriter(const Arguments& a, const WrittenBits& to, MaskFunction function, i64 block)
      : to_(to),
        function_(function),
        rows_(rows_of(a, to, block)),
        map_(tile_map_of(a, rows_.batch(), rows_.head)) {}

  void run() {
    if (rows_.count <= 0) return;
    function_.take_rows(place(0, 0), rows_.count);
    for (i64 key = 0; key < rows_.sequence.sk; key += tile_keys) {
      const Range range{key, smaller(key + tile_keys, rows_.sequence.sk)};
      // Positional masks hide many keys without the function.
      const function::Interval seen =
          rows_.visible.sees_any(range.begin, range.end) ? function_.take_keys(place(0, key)) : none;
      Found found;
      for (i64 i = 0; i < rows_.count; ++i) {
        u32* const words = words_of(i) + key / 32;
        if (seen.single())
          __builtin_memset(words, seen.low != 0 ? 0xff : 0, tile_keys / 8);
        else
          function_.write_bits(place(i, key), i, words);
        found.add(words, range.count());
      }
      map_.set(static_cast<i32>(rows_.first / map_tile), static_cast<i32>(key / map_tile), found.state());
    }
  }

 private:
  static constexpr function::Interval none{0, 0};
  static_assert(tile_rows == map_tile && tile_keys == map_tile);

  /// What is known of a tile: which keys any of its rows sees, and which all of them see.
  struct Found {
    u64 any = 0, all = ~u64{0};

    void add(const u32* words, i64 count) {
      const u64 past = count < map_tile ? ~u64{0} << count : 0;
      const u64 bits = words[0] | u64{words[1]} << 32;
      any |= bits & ~past;
      all &= bits | past;
    }
    TileState state() const { return any == 0 ? unseen_tile : ~all == 0 ? whole_tile : mixed_tile; }
  };

  static QueryRows rows_of(const Arguments& a, const WrittenBits& to, i64 block) {
    const i64 tiles = ceil_divide(a.sq, tile_rows), matrix = block / tiles, heads = to.head != 0 ? a.hq : 1;
    return QueryRows(a, matrix / heads, matrix % heads, block % tiles * tile_rows);
  }
  FunctionPlace place(i64 i, i64 key) const {
    return {rows_.batch(), rows_.head, rows_.kv_head, rows_.first + i, key, rows_.sequence};
  }
  u32* words_of(i64 i) const {
    return to_.words + rows_.batch() * to_.batch + rows_.head * to_.head + (rows_.first + i) * to_.row;
  }

  const WrittenBits& to_;
  MaskFunction function_;
  const QueryRows rows_;
  const TileMap map_;
};

}  // namespace regard::generic
