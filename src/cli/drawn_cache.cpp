#include "cli/drawn_cache.h"

#include <algorithm>
#include <utility>

#include "cli/random.h"

namespace regard::cli {
namespace {

constexpr std::uint64_t cache_stream = 1002;  // distinct from the roles of tensors and sequences.cpp

/// One draw after the other.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed, cache_stream) {}
  std::int64_t whole(std::int64_t most) { return random_.whole(next_++, most); }
  /// `count` different numbers below `limit`, or as many as there are: one from each of equal parts,
  /// shuffled.
  std::vector<std::int64_t> different(std::int64_t count, std::int64_t limit) {
    std::vector<std::int64_t> chosen;
    const std::int64_t parts = std::min(count, limit);
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t first = limit / parts * i + std::min(i, limit % parts);
      chosen.push_back(first + whole(limit / parts - (i < limit % parts ? 0 : 1)));
      std::swap(chosen.back(), chosen[static_cast<std::size_t>(whole(i))]);
    }
    return chosen;
  }

 private:
  Random random_;
  std::uint64_t next_ = 0;
};

/// The keys of one sequence, as rows that count from the start of its memory.
struct Keys {
  std::int64_t sinks_end = 0;  ///< those up to here are read, from the left padding on
  std::int64_t begin = 0, first_read = 0, before = 0, end = 0;
  bool touches(std::int64_t first, std::int64_t last) const {
    const bool some_read = std::max(first, first_read) < std::min(last, before) ||
                           std::max(first, begin) < std::min(last, std::min(sinks_end, before));
    return some_read || (first < end && last > before);
  }
};

std::int64_t new_tokens(const CacheSizes& sizes, const DrawnCache& drawn, std::size_t i) {
  if (drawn.offsets_new.empty()) return sizes.snew;
  return drawn.offsets_new[i + 1] - drawn.offsets_new[i];
}

void draw_offsets_new(const CacheSizes& sizes, Draws& draws, std::vector<std::int32_t>& offsets) {
  std::int64_t used = 0;
  offsets.push_back(0);
  for (std::int64_t i = 0; i < sizes.b; ++i) {
    const std::int64_t most = std::min(sizes.snew, sizes.tnew - used);
    used += i == 0 ? most : i == 1 ? 0 : draws.whole(most);
    offsets.push_back(static_cast<std::int32_t>(used));
  }
}

/// The most rows before the new tokens, so that these fit, and the tables of rope have all positions.
std::int64_t most_before(const CacheSizes& sizes, std::int64_t added, std::int64_t queries) {
  const std::int64_t room = sizes.sk - added;
  if (sizes.rope_rows == 0) return room;
  const std::int64_t rotated = std::max(added, sizes.queries_follow ? queries : 1);
  return std::max<std::int64_t>(std::min(room, sizes.rope_rows - rotated), 0);
}

/// Rows with the new tokens; -1: neither keys nor new tokens. The first sequence is as long as it can be.
std::int64_t draw_end(const CacheSizes& sizes, std::int64_t i, std::int64_t added, std::int64_t most,
                      Draws& draws) {
  const std::int64_t page = sizes.page > 0 ? sizes.page : 16;
  if (i == 0) return most + added;
  const std::int64_t edges[] = {draws.whole(most), 0, page, -1, page - 1, page + 1, 1, draws.whole(most)};
  const std::int64_t before = edges[i <= 8 ? i - 1 : draws.whole(7)];
  if (before < 0) return -1;
  return std::min(before, most) + added;
}

void draw_pages_of_list(const CacheSizes& sizes, const std::vector<std::int64_t>& ends, DrawnCache& drawn) {
  drawn.page_offsets = {0};
  for (const std::int64_t drawn_end : ends) {
    const std::int64_t end = std::max<std::int64_t>(drawn_end, 0);
    const std::int64_t pages = (end + sizes.page - 1) / sizes.page;
    drawn.page_offsets.push_back(static_cast<std::int32_t>(drawn.page_offsets.back() + pages));
    drawn.last_page_lengths.push_back(
        static_cast<std::int32_t>(end == 0 ? 0 : end - (pages - 1) * sizes.page));
  }
}

std::int64_t end_of_list(const CacheSizes& sizes, const DrawnCache& drawn, std::size_t i) {
  const std::int64_t pages = drawn.page_offsets[i + 1] - drawn.page_offsets[i];
  return pages == 0 ? 0 : (pages - 1) * sizes.page + drawn.last_page_lengths[i];
}

/// Draws how long the sequences are, as far as that is not given.
std::vector<Keys> draw_lengths(const CacheSizes& sizes, const std::vector<std::int64_t>& queries,
                               Draws& draws, DrawnCache& drawn) {
  if (sizes.tnew > 0 && !sizes.slots && drawn.offsets_new.empty())
    draw_offsets_new(sizes, draws, drawn.offsets_new);
  const auto sequences = static_cast<std::size_t>(sizes.b);
  std::vector<std::int64_t> ends;
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::int64_t added = new_tokens(sizes, drawn, i);
    const std::int64_t most = most_before(sizes, added, queries[i]);
    const std::int64_t end = draw_end(sizes, static_cast<std::int64_t>(i), added, most, draws);
    ends.push_back(sizes.lengths || sizes.lists ? end : sizes.sk);
  }
  if (sizes.lists) {
    if (drawn.page_offsets.empty()) draw_pages_of_list(sizes, ends, drawn);
    for (std::size_t i = 0; i < sequences; ++i) ends[i] = end_of_list(sizes, drawn, i);
  } else if (sizes.lengths) {
    for (std::size_t i = 0; drawn.lengths.size() < sequences; ++i) {
      const std::int64_t before = ends[i] < 0 ? -1 : ends[i] - new_tokens(sizes, drawn, i);
      drawn.lengths.push_back(static_cast<std::int32_t>(before));
    }
    for (std::size_t i = 0; i < sequences; ++i)
      ends[i] = drawn.lengths[i] < 0 ? 0 : drawn.lengths[i] + new_tokens(sizes, drawn, i);
  }
  std::vector<Keys> all;
  for (std::size_t i = 0; i < sequences; ++i) {
    Keys keys;
    keys.end = ends[i];
    keys.before = std::max<std::int64_t>(ends[i] - new_tokens(sizes, drawn, i), 0);
    if (!drawn.lengths.empty() && drawn.lengths[i] < 0) keys.before = 0;
    if (sizes.left_padding) {
      const std::int64_t paddings[] = {draws.whole(keys.before), 0, keys.before};
      if (drawn.left_padding.size() <= i)
        drawn.left_padding.push_back(static_cast<std::int32_t>(paddings[i < 4 ? i % 3 : draws.whole(2)]));
      keys.begin = drawn.left_padding[i];
    }
    keys.first_read = keys.begin;
    if (sizes.window_left >= 0) {
      const std::int64_t diagonal = sizes.top_left ? 0 : keys.end - keys.begin - queries[i];
      keys.first_read += std::max<std::int64_t>(diagonal - sizes.window_left, 0);
      keys.sinks_end = keys.begin + sizes.sink_tokens;
    }
    if (queries[i] == 0) {
      keys.first_read = keys.before;
      keys.sinks_end = 0;
    }
    all.push_back(keys);
  }
  return all;
}

bool draw_pages(const CacheSizes& sizes, const std::vector<Keys>& all, Draws& draws, DrawnCache& drawn) {
  std::vector<std::int32_t>& table = sizes.lists ? drawn.page_list : drawn.page_table;
  if (!table.empty()) return true;
  const std::int64_t blocks = (sizes.sk + sizes.page - 1) / sizes.page;
  std::vector<bool> used;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t listed = sizes.lists ? drawn.page_offsets[i + 1] - drawn.page_offsets[i] : blocks;
    for (std::int64_t block = 0; block < listed; ++block)
      used.push_back(all[i].touches(block * sizes.page, (block + 1) * sizes.page));
  }
  const std::int64_t needed = std::ranges::count(used, true);
  const std::vector<std::int64_t> pages = draws.different(needed, sizes.pages);
  const auto count = static_cast<std::int64_t>(pages.size());
  const bool writes = sizes.snew > 0 || sizes.tnew > 0;
  if (needed > 0 && (count == 0 || (count < needed && writes))) return false;
  std::int64_t next = 0;
  for (const bool is_used : used)
    table.push_back(is_used ? static_cast<std::int32_t>(pages[static_cast<std::size_t>(next++ % count)])
                            : -1);
  return true;
}

bool draw_sequences(const CacheSizes& sizes, Draws& draws, DrawnCache& drawn) {
  if (!drawn.cache_index.empty()) return true;
  for (const std::int64_t sequence : draws.different(sizes.b, sizes.cache))
    drawn.cache_index.push_back(static_cast<std::int32_t>(sequence));
  const bool writes = sizes.snew > 0 || sizes.tnew > 0;
  if (writes && sizes.cache < sizes.b) return false;
  while (static_cast<std::int64_t>(drawn.cache_index.size()) < sizes.b)
    drawn.cache_index.push_back(static_cast<std::int32_t>(draws.whole(sizes.cache - 1)));
  return true;
}

void draw_slots(const CacheSizes& sizes, Draws& draws, DrawnCache& drawn) {
  if (!drawn.slots.empty()) return;
  const std::int64_t rows = sizes.page > 0 ? sizes.pages * sizes.page : sizes.cache * sizes.sk;
  const std::vector<std::int64_t> chosen = draws.different(sizes.tnew, rows);
  for (std::int64_t i = 0; i < sizes.tnew; ++i) {
    const bool written = i % 4 != 2 && i < static_cast<std::int64_t>(chosen.size());
    drawn.slots.push_back(written ? chosen[static_cast<std::size_t>(i)] : -1);
  }
}

/// Each row of a page that is in use holds a key, also left of a window.
void list_rows(const CacheSizes& sizes, const std::vector<Keys>& all, DrawnCache& drawn) {
  const std::int64_t page = sizes.page > 0 ? sizes.page : std::max<std::int64_t>(sizes.sk, 1);
  const std::int64_t blocks = (sizes.sk + page - 1) / page;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto batch = static_cast<std::int64_t>(i);
    for (std::int64_t row = all[i].begin; row < all[i].before; ++row) {
      const std::int64_t block = row / page;
      if (!all[i].touches(block * page, (block + 1) * page)) continue;
      std::int64_t first = batch;
      if (sizes.lists)
        first = drawn.page_list[static_cast<std::size_t>(drawn.page_offsets[i] + block)];
      else if (sizes.page > 0)
        first = drawn.page_table[static_cast<std::size_t>(batch * blocks + block)];
      else if (!drawn.cache_index.empty())
        first = drawn.cache_index[i];
      drawn.rows.push_back({first, row % page});
    }
  }
}

}  // namespace

std::optional<DrawnCache> draw_cache(const CacheSizes& sizes, const std::vector<std::int64_t>& queries,
                                     std::uint64_t seed, DrawnCache drawn) {
  Draws draws(seed);
  if (sizes.slots) {
    draw_slots(sizes, draws, drawn);
    return drawn;
  }
  const std::vector<Keys> all = draw_lengths(sizes, queries, draws, drawn);
  const bool enough = sizes.page > 0    ? draw_pages(sizes, all, draws, drawn)
                      : sizes.cache > 0 ? draw_sequences(sizes, draws, drawn)
                                        : true;
  if (!enough) return std::nullopt;
  for (const Keys& keys : all) drawn.keys.push_back(keys.end - keys.begin);
  list_rows(sizes, all, drawn);
  return drawn;
}

}  // namespace regard::cli
