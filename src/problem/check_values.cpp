// Checks of values in tensors in host memory.
#include <algorithm>

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

/// The keys of one sequence in a cache.
struct CachedKeys {
  std::int64_t padding = 0, before = 0, added = 0;  ///< rows
  std::int64_t end() const { return before + added; }
};

CachedKeys cached_keys(const Problem& p, const regard_arguments& arguments, std::int64_t i) {
  const std::int32_t* lengths = integers(arguments, REGARD_LENGTHS_K);
  const std::int32_t* offsets = integers(arguments, REGARD_OFFSETS_NEW);
  const std::int32_t* padding = integers(arguments, REGARD_LEFT_PADDING);
  CachedKeys keys;
  if (lengths != nullptr && lengths[i] < 0) return keys;
  keys.added = offsets == nullptr ? p.snew : rows_between(offsets, i);
  keys.before = lengths == nullptr ? p.sk - keys.added : lengths[i];
  keys.padding = padding == nullptr ? 0 : padding[i];
  return keys;
}

Status check_keys(const Problem& p, const CachedKeys& keys, std::int64_t i) {
  const std::string sequence = "sequence " + std::to_string(i);
  if (keys.end() > p.sk) {
    return invalid(sequence + " has " + std::to_string(keys.before) + " keys, and " +
                   std::to_string(keys.added) + " new tokens do not fit; the cache has room for " +
                   std::to_string(p.sk));
  }
  if (keys.padding < 0 || keys.padding > keys.before) {
    return invalid("left_padding[" + std::to_string(i) + "] is " + std::to_string(keys.padding) +
                   "; it is at least 0 and at most the length of the keys, here " +
                   std::to_string(keys.before));
  }
  return {};
}

/// The rows of the cache that a call may touch: those left of a window belong to nobody.
struct TouchedRows {
  std::int64_t sinks_end, begin, end;
  bool touch(std::int64_t first, std::int64_t last) const {
    return first < end && (last > begin || first < sinks_end);
  }
};

TouchedRows touched_rows(const Problem& p, const regard_arguments& arguments, const CachedKeys& keys,
                         std::int64_t i) {
  TouchedRows rows{0, keys.padding, keys.end()};
  if (p.pass == Pass::append) rows.begin = keys.before;
  if (p.pass != Pass::fwd || p.window_left < 0) return rows;
  std::int64_t queries = p.sq;
  if (const std::int32_t* offsets = integers(arguments, REGARD_OFFSETS_Q)) queries = rows_between(offsets, i);
  if (const std::int32_t* lengths = integers(arguments, REGARD_LENGTHS_Q)) queries = lengths[i];
  const std::int64_t count = keys.end() - keys.padding;
  const std::int64_t diagonal = p.mask == Mask::window_top_left ? 0 : count - queries;
  rows.sinks_end = keys.padding + p.sink_tokens;
  const std::int64_t first = keys.padding + std::max<std::int64_t>(diagonal - p.window_left, 0);
  rows.begin = keys.added > 0 ? std::min(first, keys.before) : first;
  return rows;
}

/// Page numbers, as far as the rows of the sequences reach.
Status check_pages(const Problem& p, const TouchedRows& rows, regard_role role, const std::int32_t* picked,
                   std::int64_t first_index) {
  const std::int64_t pages = tensor_spec(p, REGARD_K).shape[0];
  for (std::int64_t block = 0; block * p.paged < rows.end; ++block) {
    if (!rows.touch(block * p.paged, (block + 1) * p.paged)) continue;
    if (Status status = check_pick(role, first_index + block, picked[block], pages); !status) return status;
  }
  return {};
}

Status check_page_table(const Problem& p, const regard_arguments& arguments) {
  const regard_tensor& table = arguments.tensor[REGARD_PAGE_TABLE];
  for (std::int64_t i = 0; i < p.b; ++i) {
    const CachedKeys keys = cached_keys(p, arguments, i);
    if (Status status = check_keys(p, keys, i); !status) return status;
    const auto* row = static_cast<const std::int32_t*>(table.data) + i * table.strides[0];
    const TouchedRows rows = touched_rows(p, arguments, keys, i);
    if (Status status = check_pages(p, rows, REGARD_PAGE_TABLE, row, i * table.shape[1]); !status)
      return status;
  }
  return {};
}

/// A list says how long each sequence is, with its new tokens.
Status check_page_list(const Problem& p, const regard_arguments& arguments) {
  const std::int32_t* offsets = integers(arguments, REGARD_PAGE_OFFSETS);
  const std::int32_t* list = integers(arguments, REGARD_PAGE_LIST);
  const std::int32_t* last = integers(arguments, REGARD_LAST_PAGE_LENGTHS);
  const std::int64_t listed = list == nullptr ? 0 : arguments.tensor[REGARD_PAGE_LIST].shape[0];
  if (offsets[0] != 0)
    return invalid("page_offsets[0] is " + std::to_string(offsets[0]) + "; offsets start at 0");
  for (std::int64_t i = 0; i < p.b; ++i) {
    const std::string next =
        "page_offsets[" + std::to_string(i + 1) + "] is " + std::to_string(offsets[i + 1]);
    if (offsets[i + 1] < offsets[i])
      return invalid(next + ", below the one before it; offsets never decrease");
    if (offsets[i + 1] > listed)
      return invalid(next + ", past the " + std::to_string(listed) + " of page_list");
    const std::int64_t full = rows_between(offsets, i) - 1;
    if (full < 0) continue;
    const std::int64_t end = full * p.paged + last[i];
    if (last[i] < 1 || last[i] > p.paged || end > p.sk) {
      return invalid("last_page_lengths[" + std::to_string(i) + "] is " + std::to_string(last[i]) +
                     " after " + std::to_string(full) + " full pages; it is 1 to " + std::to_string(p.paged) +
                     " and no sequence is longer than sk=" + std::to_string(p.sk));
    }
    CachedKeys keys = cached_keys(p, arguments, i);
    keys.before = end - keys.added;
    if (keys.before < 0) {
      return invalid("sequence " + std::to_string(i) + " has " + std::to_string(end) +
                     " rows in its pages, fewer than its " + std::to_string(keys.added) + " new tokens");
    }
    if (Status status = check_keys(p, keys, i); !status) return status;
    const TouchedRows rows = touched_rows(p, arguments, keys, i);
    if (Status status = check_pages(p, rows, REGARD_PAGE_LIST, list + offsets[i], offsets[i]); !status)
      return status;
  }
  return {};
}

/// The positions of sequences and pages in a KV cache.
Status check_cache(const Problem& p, const regard_arguments& arguments) {
  if (!is_cache(p) || p.slots != SlotType::none) return {};
  if (const std::int32_t* picked = integers(arguments, REGARD_CACHE_INDEX)) {
    for (std::int64_t i = 0; i < p.b; ++i)
      if (Status status = check_pick(REGARD_CACHE_INDEX, i, picked[i], p.cache); !status) return status;
  } else if (p.cache > 0 && p.b > p.cache) {
    return invalid("the cache has " + std::to_string(p.cache) + " sequences, fewer than the batch of " +
                   std::to_string(p.b) + "; give cache_index, or a larger cache");
  }
  if (p.paged > 0 && p.sk > 0)
    return p.table == PageTable::sglang ? check_page_list(p, arguments) : check_page_table(p, arguments);
  for (std::int64_t i = 0; i < p.b; ++i)
    if (Status status = check_keys(p, cached_keys(p, arguments, i), i); !status) return status;
  return {};
}

template <class Slot>
Status check_slots(const Problem& p, const void* data) {
  const std::int64_t rows =
      p.paged > 0 ? tensor_spec(p, REGARD_K).shape[0] * p.paged : tensor_spec(p, REGARD_K).shape[0] * p.sk;
  const auto* slots = static_cast<const Slot*>(data);
  for (std::int64_t i = 0; i < p.tnew; ++i) {
    if (slots[i] < rows) continue;
    return invalid("slots[" + std::to_string(i) + "] is " + std::to_string(slots[i]) + "; the cache has " +
                   std::to_string(rows) + " rows, counted from 0; a negative slot is not written");
  }
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
  if (Status status = check_cache(p, arguments); !status) return status;
  const void* slots = arguments.tensor[REGARD_SLOTS].data;
  if (slots == nullptr) return {};
  return p.slots == SlotType::int64 ? check_slots<std::int64_t>(p, slots)
                                    : check_slots<std::int32_t>(p, slots);
}

}  // namespace regard
