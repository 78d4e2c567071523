// Random numbers that say where the keys of a KV cache are: lengths, pages, padding, slots. Kernel tests draw
// the same.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace regard::cli {

/// The sizes that the numbers must fit, and which numbers there are.
struct CacheSizes {
  std::int64_t b = 1, sk = 0;
  std::int64_t page = 0, pages = 0;  ///< page 0: a dense cache of `cache` sequences
  std::int64_t cache = 0;
  std::int64_t snew = 0, tnew = 0;  ///< tnew 0: dense new tokens
  bool lists = false;               ///< lists of pages instead of a table
  bool lengths = false, left_padding = false;
  bool slots = false;
  std::int64_t window_left = -1, sink_tokens = 0;  ///< as the problem's
  bool top_left = false;
  std::int64_t rope_rows = 0;   ///< new tokens and queries are rotated at the length; 0: they are not
  bool queries_follow = false;  ///< each query at the next position
};

/// The drawn numbers; a vector is empty if the problem has no such tensor. Numbers that are given are kept.
struct DrawnCache {
  std::vector<std::int32_t> lengths;       ///< before the new tokens; -1: neither keys nor new tokens
  std::vector<std::int32_t> offsets_new;   ///< of packed new tokens; the last tokens belong to no sequence
  std::vector<std::int32_t> left_padding;  ///< 0, all keys, and between
  std::vector<std::int32_t> cache_index;   ///< each sequence once where the cache has enough of them
  std::vector<std::int32_t> page_table;    ///< -1 where a sequence has no keys: after the last one, ...
  std::vector<std::int32_t> page_offsets, page_list, last_page_lengths;
  std::vector<std::int64_t> slots;  ///< no row twice, and some -1

  std::vector<std::int64_t> keys;  ///< of each sequence, with new tokens and without left padding

  /// A row of K and V.
  struct Row {
    std::int64_t batch, row;  ///< the first index, a page or a sequence, and the row in it
  };
  /// The rows that hold keys before the call, except in sequences and pages of which it reads nothing.
  std::vector<Row> rows;
};

/// `queries`: the number for each sequence; without queries a sequence's keys are not read. Without new
/// tokens sequences may share pages; with them, nothing is returned if there are too few pages or sequences.
std::optional<DrawnCache> draw_cache(const CacheSizes&, const std::vector<std::int64_t>& queries,
                                     std::uint64_t seed, DrawnCache given = {});

}  // namespace regard::cli
