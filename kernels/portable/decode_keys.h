// K and V of the keys of decode.cu, from memory to the registers in which they are multiplied.
//
// Of K, the right operand of Q K^T, four lanes have a key; each reads vectors of neighbouring columns, and
// the product sums columns in the order in which Q has them too. Of V, the right operand of P V, eight lanes
// have the columns of four keys.
#pragma once

#include "kernels/head.h"
#include "kernels/machine/memory.h"
#include "kernels/portable/decode_tile.h"
#include "kernels/portable/element.h"
#include "kernels/portable/key_ranges.h"

namespace regard {

/// A key's page and its row there. If the page is negative, no query row of the block sees the key, and its
/// memory may hold anything.
struct DecodePlace {
  i32 page;
  u32 row;
};

/// The rows of K or V of a head.
struct DecodeSource {
  const u8* first;
  i64 page, row;  // bytes from one to the next

  REGARD_DEVICE DecodeSource(const Rows& rows, i64 head)
      : first(static_cast<const u8*>(rows.data) + head * rows.head * stored_bytes),
        page(rows.batch * stored_bytes),
        row(rows.row * stored_bytes) {}

  /// Whether whole vectors can be read.
  REGARD_DEVICE bool is_aligned() const {
    return (reinterpret_cast<u64>(first) | static_cast<u64>(page | row)) % 16 == 0;
  }
  /// The offset of a key's row in bytes; negative for keys that no query row sees.
  REGARD_DEVICE i64 offset(const DecodePlace& place) const {
    return place.page < 0 ? -1 : place.page * page + place.row * row;
  }
};

/// Finds where the wave's keys are: each lane finds one of them.
class DecodeKeys {
 public:
  const DecodeSource k, v;

  REGARD_DEVICE explicit DecodeKeys(const Head& head)
      : k(head.arguments.k, head.kv_head),
        v(head.arguments.v, head.kv_head),
        pages_(pages_of(head.arguments.cache, head.batch)),
        rows_of_page_(static_cast<u32>(head.arguments.cache.page)),
        first_key_(static_cast<u32>(head.sequence.first_k)),
        sequence_(static_cast<i32>(stored_sequence(head.arguments.cache, head.batch))),
        aligned_(k.is_aligned() && v.is_aligned()) {}

  /// The place of this lane's key; `key` is the wave's first. Of the page table only entries of visible keys
  /// are read.
  REGARD_DEVICE DecodePlace find(const BlockKeyRange& visible, i32 key) const {
    key += lane() % wave_keys;
    DecodePlace place = {-1, 0};
    if (!visible.sees(key)) return place;
    place = {sequence_, first_key_ + static_cast<u32>(key)};
    if (rows_of_page_ > 0) {
      const u32 block = place.row / rows_of_page_;
      place.row -= block * rows_of_page_;
      place.page = global(pages_)[block];
    }
    return place;
  }
  REGARD_DEVICE bool aligned() const { return aligned_; }
  /// Whether all of the wave's keys are visible and can be read in whole vectors.
  REGARD_DEVICE bool are_whole(const BlockKeyRange& visible, i32 key) const {
    const Range32 keys = {key, key + wave_keys};
    const bool whole = aligned_ && keys.begin >= visible.any.begin && keys.end <= visible.any.end &&
                       !(by_position && visible.between.overlaps(keys));
    return !any_in_wave(!whole);  // a vote, so that the compiler knows the result to be uniform
  }

 private:
  const i32* pages_;
  u32 rows_of_page_, first_key_;
  i32 sequence_;
  bool aligned_;
};

REGARD_DEVICE i64 offset_from_lane(i64 offset, i32 lane) {
  const u64 bits = static_cast<u64>(offset);
  const u32 low = from_lane(static_cast<u32>(bits), lane),
            high = from_lane(static_cast<u32>(bits >> 32), lane);
  return static_cast<i64>(u64{high} << 32 | low);
}

/// Loads a vector of numbers as they are stored, or zeros where `there` is false.
struct LoadWhole {
  const u8* rows;

  template <i32 count>
  REGARD_DEVICE void operator()(u32 (&words)[count], i64 offset, i32 column, bool there) const {
    load_words(words, rows + offset + column * stored_bytes, there);
  }
};
/// Like LoadWhole, for rows of any alignment, of which some may be hidden.
struct LoadSome {
  const u8* rows;
  bool aligned;

  template <i32 count>
  REGARD_DEVICE void operator()(u32 (&words)[count], i64 offset, i32 column, bool there) const {
    const u8* const from = rows + offset + column * stored_bytes;
    there = there && offset >= 0;
    if (__builtin_expect(aligned, true)) {
      load_words(words, from, there);
      return;
    }
#pragma unroll
    for (i32 i = 0; i < count; ++i) words[i] = 0;
    if (!there) return;
#pragma unroll
    for (i32 i = 0; i < count * of_word; ++i) {
      const u32 number = stored_bytes == 1 ? u32{from[i]} : u32{reinterpret_cast<const u16*>(from)[i]};
      words[i / of_word] |= number << 8 * stored_bytes * (i % of_word);
    }
  }
};

/// A lane's vectors of K: of the keys of its column in each column tile.
struct StoredK {
  static constexpr i32 rows = key_tiles;

  u32 words[rows][chunks][4];

  /// Which of the wave's keys is in its n-th row.
  REGARD_DEVICE static i32 key_of(i32 n) { return n * 8 + lane() / 4; }

  template <class Load>
  REGARD_DEVICE void load(const i64 (&offsets)[rows], const Load& load_one) {
#pragma unroll
    for (i32 n = 0; n < rows; ++n) {
#pragma unroll
      for (i32 c = 0; c < chunks; ++c) {
        const i32 column = c * chunk_columns + lane() % 4 * of_vector;
        load_one(words[n][c], offsets[n], column, config::d % chunk_columns == 0 || column < config::d);
      }
    }
  }
};

/// A lane's vectors of V: of the four keys of each group whose weights it has.
struct StoredV {
  static constexpr i32 rows = 4 * groups;

  u32 words[groups][4][reads][words_of_v];

  REGARD_DEVICE static i32 key_of(i32 n) { return lane() % 4 * 2 + n % 2 + n / 2 * 8; }

  template <class Load>
  REGARD_DEVICE void load(const i64 (&offsets)[rows], const Load& load_one) {
#pragma unroll
    for (i32 n = 0; n < rows; ++n) {
#pragma unroll
      for (i32 c = 0; c < reads; ++c) {
        const i32 column = (c * 8 + lane() / 4) * numbers_of_v;
        load_one(words[n / 4][n % 4][c], offsets[n], column,
                 config::dv == layout.columns || column < config::dv);
      }
    }
  }
};

/// K or V of the wave's keys; without a branch for each vector where all of them are there.
template <class Stored>
REGARD_DEVICE void load(Stored& to, const DecodeSource& from, const DecodePlace& place, bool whole,
                        bool aligned) {
  const i64 own = from.offset(place);
  i64 offsets[Stored::rows];
#pragma unroll
  for (i32 n = 0; n < Stored::rows; ++n) offsets[n] = offset_from_lane(own, Stored::key_of(n));
  if (__builtin_expect(whole, true))
    to.load(offsets, LoadWhole{from.first});
  else
    to.load(offsets, LoadSome{from.first, aligned});
}

/// The i-th pair of numbers of a word, as they are multiplied.
REGARD_DEVICE u32 pair_of_word(u32 word, i32 i) {
  if constexpr (stored_bytes == 2)
    return word;
  else if constexpr (config::kv == DType::int8)
    return halves_of_int8(word, i);
  else
    return halves_of_fp8<config::kv>(word, i);
}

/// Q K^T of the wave's keys.
REGARD_DEVICE void multiply_keys(Scores& s, const Left (&q)[steps], const StoredK& k) {
#pragma unroll
  for (i32 n = 0; n < key_tiles; ++n) s[0][n] = {};
#pragma unroll
  for (i32 step = 0; step < steps; ++step) {
#pragma unroll
    for (i32 n = 0; n < key_tiles; ++n) {
      const u32(&words)[4] = k.words[n][step / steps_of_chunk];
      const i32 word = step % steps_of_chunk * 4 / of_word;
      constexpr i32 next = stored_bytes == 1 ? 0 : 1;  // the word of the second pair
      multiply_add<multiplied>(s[0][n], q[step], pair_of_word(words[word], 0),
                               pair_of_word(words[word + next], 1));
    }
  }
}

/// O += P V. Neighbours in a right operand are keys: the numbers of two keys are interleaved first.
REGARD_DEVICE void multiply_values(DecodeOutput& o, const Left (&p)[groups], const StoredV& v) {
  constexpr u32 low = stored_bytes == 1 ? 0x5140 : 0x5410, high = stored_bytes == 1 ? 0x7362 : 0x7632;
#pragma unroll
  for (i32 at = 0; at < groups * reads; ++at) {
    const i32 group = at / reads, c = at % reads;
    const auto& keys = v.words[group];
#pragma unroll
    for (i32 word = 0; word < words_of_v; ++word)
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        const u32 bytes = half == 0 ? low : high;
        const u32 x = byte_permute(keys[0][c][word], keys[1][c][word], bytes),
                  y = byte_permute(keys[2][c][word], keys[3][c][word], bytes);
        constexpr i32 pairs = 2 / stored_bytes;
#pragma unroll
        for (i32 i = 0; i < pairs; ++i)
          multiply_add<multiplied>(o[c][word * of_word + half * pairs + i], p[group], pair_of_word(x, i),
                                   pair_of_word(y, i));
      }
  }
}

}  // namespace regard
