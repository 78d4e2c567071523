// A map of a mask of bits: which tiles contain a visible pair of a row and a key, and which contain only
// visible pairs. The stage that writes the bits of a mask that is a function also writes its map, and kernels
// skip tiles by it (Arguments::tile_map). Bits from a caller have no map.
//
// A tile is 64 rows by 64 keys: two words of bits, the tile of the generic kernels, and a part of the tiles
// of all others, each of which is read as the tiles of the map that it overlaps, whatever its size.
//
// A tile takes a byte, so that the block which writes it needs no atomic operation and no zeros beforehand;
// its bits take 512. The map is stored twice, as rows of tiles and as columns: forward goes along the keys of
// some rows, backward along the rows of some keys, and both read eight tiles at once.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard {

/// Rows of a tile, and its keys.
constexpr i32 map_tile = 64;
/// Tiles of a word.
constexpr i32 map_word = 8;

/// Two bits: some pair is visible, and every pair is. Rows and keys past the sequence's do not count.
enum TileState : u8 { unseen_tile = 0, mixed_tile = 1, whole_tile = 3 };

constexpr REGARD_INLINE i32 map_tiles(i64 rows_or_keys) {
  return static_cast<i32>((rows_or_keys + map_tile - 1) / map_tile);
}
/// Words of a row or column of that many tiles.
constexpr REGARD_INLINE i32 map_words(i32 tiles) {
  return (tiles + map_word - 1) / map_word;
}

/// What a map is read through. On AMD GPUs loads that may be from shared memory as well are slow.
#ifdef __HIP__
template <class T>
using MapPointer = __attribute__((address_space(1))) const T*;
#else
template <class T>
using MapPointer = const T*;
#endif

/// Neighbouring rows of tiles, whose elements are keys; or columns, whose elements are rows. A tile of them
/// is seen if it is seen in one of them, and whole if it is whole in all.
struct TileLines {
  const u64* words = nullptr;  // null: no map
  i32 pitch = 0;               // words from one to the next
  i32 count = 0;

  REGARD_INLINE bool exist() const { return words != nullptr; }

  /// The first element of [begin, end) in a tile that is seen; `end` if there is none.
  REGARD_INLINE i32 first_seen(i32 begin, i32 end) const {
    i32 tile = begin / map_tile;
    while (tile * map_tile < end) {
      u64 rest = any(tile / map_word) >> tile % map_word * 8;
      if (rest != 0) {
        for (; (rest & 0xff) == 0; rest >>= 8) ++tile;
        return between(begin, tile * map_tile, end);
      }
      tile = (tile / map_word + 1) * map_word;
    }
    return end;
  }

  /// The end of [begin, end) without what comes after the last tile that is seen; `begin` if there is none.
  REGARD_INLINE i32 end_of_seen(i32 begin, i32 end) const {
    i32 tile = (end - 1) / map_tile;
    while (end > begin && (tile + 1) * map_tile > begin) {
      u64 rest = any(tile / map_word) << (map_word - 1 - tile % map_word) * 8;
      if (rest != 0) {
        for (; rest >> 56 == 0; rest <<= 8) --tile;
        return between(begin, (tile + 1) * map_tile, end);
      }
      tile = tile / map_word * map_word - 1;
    }
    return begin;
  }

  /// Whether all tiles with an element of [begin, end) are whole.
  REGARD_INLINE bool whole(i32 begin, i32 end) const {
    const MapPointer<u8> tiles = MapPointer<u8>(words);
    u32 all = whole_tile;
    for (i32 line = 0; line < count; ++line)
      for (i32 tile = begin / map_tile; tile * map_tile < end; ++tile)
        all &= tiles[line * pitch * map_word + tile];
    return all == whole_tile;
  }

 private:
  static REGARD_INLINE i32 between(i32 least, i32 x, i32 most) {
    return x < least ? least : x > most ? most : x;
  }
  REGARD_INLINE u64 any(i32 word) const {
    u64 states = 0;
    for (i32 line = 0; line < count; ++line) states |= MapPointer<u64>(words)[line * pitch + word];
    return states;
  }
};

/// The map of a sequence and head, in rows and in columns. It is as large as the longest sequence needs;
/// tiles past the rows or keys of a shorter one have no meaning.
struct TileMap {
  u64* words = nullptr;  // null: there is none
  i32 row_tiles = 0, key_tiles = 0;

  TileMap() = default;
  REGARD_INLINE TileMap(u64* of_matrix, i64 sq, i64 sk)
      : words(of_matrix), row_tiles(map_tiles(sq)), key_tiles(map_tiles(sk)) {}

  /// Words of the map of one matrix.
  static constexpr REGARD_INLINE i64 size(i64 sq, i64 sk) {
    return i64{map_tiles(sq)} * map_words(map_tiles(sk)) + i64{map_tiles(sk)} * map_words(map_tiles(sq));
  }

  /// The rows of tiles for rows [begin, end), which the sequence has.
  REGARD_INLINE TileLines of_rows(i32 begin, i32 end) const {
    return lines(words, map_words(key_tiles), begin, end);
  }
  /// The columns of tiles for keys [begin, end), which the sequence has.
  REGARD_INLINE TileLines of_keys(i32 begin, i32 end) const {
    return lines(columns(), map_words(row_tiles), begin, end);
  }

  REGARD_INLINE void set(i32 row_tile, i32 key_tile, TileState state) const {
    reinterpret_cast<u8*>(words)[i64{row_tile} * map_words(key_tiles) * map_word + key_tile] = state;
    reinterpret_cast<u8*>(columns())[i64{key_tile} * map_words(row_tiles) * map_word + row_tile] = state;
  }

 private:
  REGARD_INLINE u64* columns() const { return words + i64{row_tiles} * map_words(key_tiles); }
  REGARD_INLINE TileLines lines(const u64* first, i32 pitch, i32 begin, i32 end) const {
    if (words == nullptr || begin >= end) return {};
    const i32 line = begin / map_tile;
    return {first + i64{line} * pitch, pitch, map_tiles(end) - line};
  }
};

/// That of a sequence and head, after the bits of a call.
REGARD_INLINE TileMap tile_map_of(const Arguments& a, i64 batch, i64 head) {
  if (a.tile_map == 0) return {};
  const i64 matrix =
      (a.bits.batch != 0 ? batch * (a.bits.head != 0 ? a.hq : 1) : 0) + (a.bits.head != 0 ? head : 0);
  u64* const first = reinterpret_cast<u64*>(static_cast<u32*>(a.bits.data) + a.tile_map);
  return {first + matrix * TileMap::size(a.sq, a.sk), a.sq, a.sk};
}

}  // namespace regard
