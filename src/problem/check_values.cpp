// Checks of values in tensors in host memory.
#include <algorithm>
#include <array>

#include "problem/tensors.h"

namespace regard {
namespace {

/// One side of the problem: queries, keys or new tokens.
struct Side {
  std::string_view name;        ///< "q", "k" or "new"
  std::int64_t longest;         ///< sq, sk or snew
  regard_role tensor;           ///< Q, K or K_NEW
  const std::int32_t* offsets;  ///< null when dense
  const std::int32_t* lengths;  ///< null when not given
  bool cache = false;           ///< a negative length is that of a sequence without keys
};

std::int64_t rows_between(const std::int32_t* offsets, std::int64_t i) {
  return std::int64_t{offsets[i + 1]} - offsets[i];
}

std::string entry(std::string_view array, const Side& side, std::int64_t index, std::int64_t value) {
  return std::string(array) + "_" + std::string(side.name) + "[" + std::to_string(index) + "] is " +
         std::to_string(value);
}

Status check_offsets(const Problem& p, const Side& side) {
  if (side.offsets == nullptr) return {};
  if (side.offsets[0] != 0)
    return invalid(entry("offsets", side, 0, side.offsets[0]) + "; offsets start at 0");
  for (std::int64_t i = 0; i < p.b; ++i) {
    if (side.offsets[i + 1] >= side.offsets[i]) continue;
    return invalid(entry("offsets", side, i + 1, side.offsets[i + 1]) + ", below the " +
                   std::to_string(side.offsets[i]) + " before it; cumulative offsets never decrease");
  }
  const std::int64_t tokens = tensor_spec(p, side.tensor).shape[0];
  if (side.offsets[p.b] > tokens) {
    return invalid(entry("offsets", side, p.b, side.offsets[p.b]) + ", past the " + std::to_string(tokens) +
                   " tokens of the tensor; the last offset is at most that");
  }
  return {};
}

/// Logical lengths, which do not count new tokens for keys.
Status check_sequences(const Problem& p, const Side& side) {
  if (side.offsets == nullptr && side.lengths == nullptr) return {};
  for (std::int64_t i = 0; i < p.b; ++i) {
    const std::int64_t physical = side.offsets == nullptr ? side.longest : rows_between(side.offsets, i);
    const std::int64_t length = side.lengths == nullptr ? physical : side.lengths[i];
    if ((length < 0 && !side.cache) || length > physical) {
      return invalid(entry("lengths", side, i, length) + "; a logical length is between 0 and the physical " +
                     std::to_string(physical));
    }
    if (length > side.longest) {
      return invalid("sequence " + std::to_string(i) + " has " + std::to_string(length) +
                     " rows, more than s" + std::string(side.name) + "=" + std::to_string(side.longest) +
                     ", which must be the longest or above it");
    }
  }
  return {};
}

const std::int32_t* integers(const regard_arguments& arguments, regard_role role) {
  return static_cast<const std::int32_t*>(arguments.tensor[role].data);
}

/// One value of the tensor `role`, which selects one of `count`.
Status check_pick(regard_role role, std::int64_t index, std::int64_t value, std::int64_t count) {
  if (value >= 0 && value < count) return {};
  return invalid(std::string(role_name(role)) + "[" + std::to_string(index) + "] is " +
                 std::to_string(value) + "; the cache has " + std::to_string(count) +
                 (role == REGARD_CACHE_INDEX ? " sequences" : " pages") + ", counted from 0");
}

/// The rows of one sequence in a cache. All are 0 where its length is negative, or where a list has no pages
/// for it.
struct CachedKeys {
  std::int64_t padding = 0, before = 0, added = 0;
  std::int64_t end() const { return before + added; }
};

CachedKeys cached_keys(const Problem& p, const regard_arguments& arguments, std::int64_t i) {
  const std::int32_t* lengths = integers(arguments, REGARD_LENGTHS_K);
  const std::int32_t* offsets = integers(arguments, REGARD_OFFSETS_NEW);
  const std::int32_t* padding = integers(arguments, REGARD_LEFT_PADDING);
  const std::int32_t* pages = integers(arguments, REGARD_PAGE_OFFSETS);
  CachedKeys keys;
  if (pages != nullptr ? rows_between(pages, i) == 0 : lengths != nullptr && lengths[i] < 0) return keys;
  keys.added = offsets == nullptr ? p.snew : rows_between(offsets, i);
  keys.before = lengths == nullptr ? p.sk - keys.added : lengths[i];
  if (pages != nullptr) {  // these count new tokens
    keys.before = (rows_between(pages, i) - 1) * p.paged + integers(arguments, REGARD_LAST_PAGE_LENGTHS)[i] -
                  keys.added;
  }
  keys.padding = padding == nullptr ? 0 : padding[i];
  return keys;
}

Status check_keys(const Problem& p, const CachedKeys& keys, std::int64_t i) {
  const std::string sequence = "sequence " + std::to_string(i) + " has ";
  if (keys.before < 0) {
    return invalid(sequence + std::to_string(keys.end()) + " rows in its pages, fewer than its " +
                   std::to_string(keys.added) +
                   " new tokens; page_list and last_page_lengths must count them");
  }
  if (keys.end() > p.sk) {
    return invalid(sequence + std::to_string(keys.before) + " keys, and " + std::to_string(keys.added) +
                   " new tokens do not fit; the cache has room for " + std::to_string(p.sk));
  }
  if (keys.padding < 0 || keys.padding > keys.before) {
    return invalid("left_padding[" + std::to_string(i) + "] is " + std::to_string(keys.padding) +
                   "; it is at least 0 and at most the length of the keys, here " +
                   std::to_string(keys.before));
  }
  return {};
}

/// Rows from `begin` up to `end`.
struct RowRange {
  std::int64_t begin, end;
};

std::int64_t query_rows(const Problem& p, const regard_arguments& arguments, std::int64_t i) {
  if (p.pass != Pass::fwd) return 0;
  if (const std::int32_t* lengths = integers(arguments, REGARD_LENGTHS_Q)) return lengths[i];
  if (const std::int32_t* offsets = integers(arguments, REGARD_OFFSETS_Q)) return rows_between(offsets, i);
  return p.sq;
}

/// The rows of the cache that a call can read or write: sink tokens, and the rest. What lies left of a window
/// may be in pages that were given away.
std::array<RowRange, 2> touched_rows(const Problem& p, const regard_arguments& arguments,
                                     const CachedKeys& keys, std::int64_t i) {
  const RowRange all{keys.padding, keys.end()}, added{keys.before, keys.end()};
  const std::int64_t queries = query_rows(p, arguments, i);
  if (queries == 0) return {RowRange{}, added};
  if (p.window_left < 0) return {RowRange{}, all};
  const std::int64_t diagonal = p.mask == Mask::window_top_left ? 0 : all.end - all.begin - queries;
  const std::int64_t first = all.begin + std::max<std::int64_t>(diagonal - p.window_left, 0);
  return {RowRange{all.begin, std::min(all.begin + p.sink_tokens, all.end)},
          RowRange{keys.added > 0 ? std::min(first, added.begin) : first, all.end}};
}

/// Checks the page numbers of the rows that a sequence needs.
Status check_pages(const Problem& p, const regard_arguments& arguments, const CachedKeys& keys,
                   std::int64_t i) {
  const std::int64_t pages = tensor_spec(p, REGARD_K).shape[0];
  const std::int32_t* offsets = integers(arguments, REGARD_PAGE_OFFSETS);
  const regard_role role = offsets != nullptr ? REGARD_PAGE_LIST : REGARD_PAGE_TABLE;
  const regard_tensor& table = arguments.tensor[role];
  const std::int64_t first = offsets != nullptr ? offsets[i] : i * table.strides[0],
                     index = offsets != nullptr ? offsets[i] : i * table.shape[1];
  for (const RowRange& rows : touched_rows(p, arguments, keys, i)) {
    if (rows.begin == rows.end) continue;  // it may begin within a page that no row needs
    for (std::int64_t block = rows.begin / p.paged; block * p.paged < rows.end; ++block) {
      const std::int32_t page = integers(arguments, role)[first + block];
      if (Status status = check_pick(role, index + block, page, pages); !status) return status;
    }
  }
  return {};
}

/// Where the pages of each sequence begin in a list, and how many rows of its last page it has.
Status check_page_list(const Problem& p, const regard_arguments& arguments) {
  const std::int32_t* offsets = integers(arguments, REGARD_PAGE_OFFSETS);
  const std::int32_t* last = integers(arguments, REGARD_LAST_PAGE_LENGTHS);
  if (offsets == nullptr) return {};
  const regard_tensor& list = arguments.tensor[REGARD_PAGE_LIST];
  const std::int64_t listed = list.data == nullptr ? 0 : list.shape[0];
  if (offsets[0] != 0)
    return invalid("page_offsets[0] is " + std::to_string(offsets[0]) + "; offsets start at 0");
  for (std::int64_t i = 0; i < p.b; ++i) {
    const std::string next =
        "page_offsets[" + std::to_string(i + 1) + "] is " + std::to_string(offsets[i + 1]);
    if (offsets[i + 1] < offsets[i])
      return invalid(next + ", below the one before it; offsets never decrease");
    if (offsets[i + 1] > listed)
      return invalid(next + ", past the " + std::to_string(listed) + " pages of page_list");
    const std::int64_t full = rows_between(offsets, i) - 1;
    if (full < 0) continue;
    if (last[i] < 1 || last[i] > p.paged || full * p.paged + last[i] > p.sk) {
      return invalid("last_page_lengths[" + std::to_string(i) + "] is " + std::to_string(last[i]) +
                     " after " + std::to_string(full) + " full pages; it is 1 to " + std::to_string(p.paged) +
                     " and no sequence is longer than sk=" + std::to_string(p.sk));
    }
  }
  return {};
}

std::string rows_of_tables(std::int64_t count) {
  return " of the rope tables, which have rows 0 to " + std::to_string(count - 1);
}

/// Checks the positions at which rope rotates the queries and new tokens of one sequence.
Status check_positions(const Problem& p, const regard_arguments& arguments, const CachedKeys& keys,
                       std::int64_t i) {
  if (p.rope == Rope::none || p.positions == Positions::token || keys.end() == 0) return {};
  const std::int64_t rows = tensor_spec(p, REGARD_ROPE_COS).shape[0];
  const std::int64_t first =
      p.positions == Positions::sequence ? integers(arguments, REGARD_POSITIONS)[i] : keys.before;
  // Without a mask all queries have the first position.
  const std::int64_t queries = query_rows(p, arguments, i),
                     rotated = p.mask == Mask::none ? std::min<std::int64_t>(queries, 1) : queries;
  const std::int64_t end = first + std::max(rotated, keys.added);
  if ((first >= 0 && end <= rows) || end == first) return {};
  return invalid("sequence " + std::to_string(i) + " has positions " + std::to_string(first) + " to " +
                 std::to_string(end - 1) + "; they are rows" + rows_of_tables(rows));
}

Status check_position(const Problem& p, const regard_arguments& arguments, std::int64_t index,
                      std::int64_t element) {
  const std::int64_t rows = tensor_spec(p, REGARD_ROPE_COS).shape[0];
  const std::int64_t position = integers(arguments, REGARD_POSITIONS)[element];
  if (position >= 0 && position < rows) return {};
  return invalid("positions[" + std::to_string(index) + "] is " + std::to_string(position) + "; it is a row" +
                 rows_of_tables(rows));
}

/// Checks the position of each new token of one sequence.
Status check_own_positions(const Problem& p, const regard_arguments& arguments, const CachedKeys& keys,
                           std::int64_t i) {
  if (p.positions != Positions::token) return {};
  const std::int32_t* offsets = integers(arguments, REGARD_OFFSETS_NEW);
  const std::int64_t stride = arguments.tensor[REGARD_POSITIONS].strides[0];
  for (std::int64_t token = 0; token < keys.added; ++token) {
    const std::int64_t index = token + (offsets != nullptr ? offsets[i] : i * p.snew),
                       element = token + (offsets != nullptr ? offsets[i] : i * stride);
    if (Status status = check_position(p, arguments, index, element); !status) return status;
  }
  return {};
}

Status check_sequence(const Problem& p, const regard_arguments& arguments, std::int64_t i) {
  const CachedKeys keys = cached_keys(p, arguments, i);
  if (Status status = check_keys(p, keys, i); !status) return status;
  if (p.paged > 0)
    if (Status status = check_pages(p, arguments, keys, i); !status) return status;
  if (Status status = check_positions(p, arguments, keys, i); !status) return status;
  return check_own_positions(p, arguments, keys, i);
}

template <class Slot>
Status check_slots(const Problem& p, const regard_arguments& arguments) {
  const std::int64_t rows = tensor_spec(p, REGARD_K).shape[0] * (p.paged > 0 ? p.paged : p.sk);
  const auto* slots = static_cast<const Slot*>(arguments.tensor[REGARD_SLOTS].data);
  for (std::int64_t i = 0; i < p.tnew; ++i) {
    if (slots[i] < 0) continue;
    if (slots[i] >= rows) {
      return invalid("slots[" + std::to_string(i) + "] is " + std::to_string(slots[i]) + "; the cache has " +
                     std::to_string(rows) + " rows, counted from 0; a negative slot is not written");
    }
    if (p.positions == Positions::token)
      if (Status status = check_position(p, arguments, i, i); !status) return status;
  }
  return {};
}

/// Checks the tensors that say where the sequences and new tokens of a KV cache are.
Status check_cache(const Problem& p, const regard_arguments& arguments) {
  if (!is_cache(p)) return {};
  if (p.slots == SlotType::int32) return check_slots<std::int32_t>(p, arguments);
  if (p.slots == SlotType::int64) return check_slots<std::int64_t>(p, arguments);
  if (const std::int32_t* picked = integers(arguments, REGARD_CACHE_INDEX)) {
    for (std::int64_t i = 0; i < p.b; ++i)
      if (Status status = check_pick(REGARD_CACHE_INDEX, i, picked[i], p.cache); !status) return status;
  }
  if (Status status = check_page_list(p, arguments); !status) return status;
  for (std::int64_t i = 0; i < p.b; ++i)
    if (Status status = check_sequence(p, arguments, i); !status) return status;
  return {};
}

}  // namespace

Status check_host_values(const Problem& p, const regard_arguments& arguments) {
  const Side sides[] = {
      {"q", p.sq, REGARD_Q, integers(arguments, REGARD_OFFSETS_Q), integers(arguments, REGARD_LENGTHS_Q)},
      {"k", p.sk, REGARD_K, integers(arguments, REGARD_OFFSETS_K), integers(arguments, REGARD_LENGTHS_K),
       is_cache(p)},
      {"new", p.snew, REGARD_K_NEW, integers(arguments, REGARD_OFFSETS_NEW), nullptr},
  };
  for (const Side& side : sides) {
    if (Status status = check_offsets(p, side); !status) return status;
    if (Status status = check_sequences(p, side); !status) return status;
  }
  return check_cache(p, arguments);
}

}  // namespace regard
