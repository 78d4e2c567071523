// Checks of values in tensors in host memory.
#include "problem/tensors.h"

namespace regard {
namespace {

/// One side of the problem: queries or keys.
struct Side {
  std::string_view name;        ///< "q" or "k"
  std::int64_t longest;         ///< sq or sk
  regard_role tensor;           ///< Q or K
  const std::int32_t* offsets;  ///< null when dense
  const std::int32_t* lengths;  ///< null when not given
  std::int64_t added = 0;       ///< tokens that the call itself writes after the logical length
};

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
    const std::int64_t physical =
        side.offsets == nullptr ? side.longest : std::int64_t{side.offsets[i + 1]} - side.offsets[i];
    const std::int64_t length = side.lengths == nullptr ? physical : side.lengths[i];
    if (side.added > 0 && length > physical - side.added) {
      return invalid(entry("lengths", side, i, length) + " and " + std::to_string(side.added) +
                     " new tokens do not fit; the cache has room for " + std::to_string(physical));
    }
    if (length < 0 || length > physical) {
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

std::int64_t pages_for(const Problem& p, std::int64_t tokens) {
  return tokens / p.paged + (tokens % p.paged != 0 ? 1 : 0);
}

/// One value of the tensor `role`, which selects one of `count`.
Status check_pick(regard_role role, std::int64_t index, std::int64_t value, std::int64_t count) {
  if (value >= 0 && value < count) return {};
  return invalid(std::string(role_name(role)) + "[" + std::to_string(index) + "] is " +
                 std::to_string(value) + "; the cache has " + std::to_string(count) +
                 (role == REGARD_CACHE_INDEX ? " sequences" : " pages") + ", counted from 0");
}

/// As many blocks of each row as its length needs: what follows them is never read.
Status check_page_table(const Problem& p, const regard_tensor& table, const std::int32_t* lengths) {
  const std::int64_t pages = tensor_spec(p, REGARD_K).shape[0];
  for (std::int64_t i = 0; i < p.b; ++i) {
    const std::int64_t tokens = lengths == nullptr ? p.sk : lengths[i] + p.snew;
    const auto* row = static_cast<const std::int32_t*>(table.data) + i * table.strides[0];
    for (std::int64_t block = 0; block < pages_for(p, tokens); ++block) {
      const std::int64_t index = i * table.shape[1] + block;
      if (Status status = check_pick(REGARD_PAGE_TABLE, index, row[block], pages); !status) return status;
    }
  }
  return {};
}

Status check_page_list(const Problem& p, const regard_arguments& arguments) {
  const std::int32_t* offsets = integers(arguments, REGARD_PAGE_OFFSETS);
  const std::int32_t* list = integers(arguments, REGARD_PAGE_LIST);
  const std::int32_t* last = integers(arguments, REGARD_LAST_PAGE_LENGTHS);
  const std::int64_t listed = list == nullptr ? 0 : arguments.tensor[REGARD_PAGE_LIST].shape[0];
  const std::int64_t pages = tensor_spec(p, REGARD_K).shape[0];
  if (offsets[0] != 0)
    return invalid("page_offsets[0] is " + std::to_string(offsets[0]) + "; offsets start at 0");
  for (std::int64_t i = 0; i < p.b; ++i) {
    const std::string next =
        "page_offsets[" + std::to_string(i + 1) + "] is " + std::to_string(offsets[i + 1]);
    if (offsets[i + 1] < offsets[i])
      return invalid(next + ", below the one before it; offsets never decrease");
    if (offsets[i + 1] > listed)
      return invalid(next + ", past the " + std::to_string(listed) + " of page_list");
    const std::int64_t full = std::int64_t{offsets[i + 1]} - offsets[i] - 1;
    if (full < 0) continue;
    if (last[i] < 1 || last[i] > p.paged || full * p.paged + last[i] > p.sk) {
      return invalid("last_page_lengths[" + std::to_string(i) + "] is " + std::to_string(last[i]) +
                     " after " + std::to_string(full) + " full pages; it is 1 to " + std::to_string(p.paged) +
                     " and no sequence is longer than sk=" + std::to_string(p.sk));
    }
  }
  for (std::int64_t i = 0; i < offsets[p.b]; ++i) {
    if (Status status = check_pick(REGARD_PAGE_LIST, i, list[i], pages); !status) return status;
  }
  return {};
}

/// The positions of sequences and pages in a KV cache.
Status check_cache(const Problem& p, const regard_arguments& arguments) {
  for (std::int64_t i = 0; p.cache > 0 && i < p.b; ++i) {
    const std::int32_t picked = integers(arguments, REGARD_CACHE_INDEX)[i];
    if (Status status = check_pick(REGARD_CACHE_INDEX, i, picked, p.cache); !status) return status;
  }
  if (p.paged == 0 || p.sk == 0) return {};
  if (p.table == PageTable::sglang) return check_page_list(p, arguments);
  return check_page_table(p, arguments.tensor[REGARD_PAGE_TABLE], integers(arguments, REGARD_LENGTHS_K));
}

}  // namespace

Status check_host_values(const Problem& p, const regard_arguments& arguments) {
  const Side sides[] = {
      {"q", p.sq, REGARD_Q, integers(arguments, REGARD_OFFSETS_Q), integers(arguments, REGARD_LENGTHS_Q)},
      {"k", p.sk, REGARD_K, integers(arguments, REGARD_OFFSETS_K), integers(arguments, REGARD_LENGTHS_K),
       p.snew},
  };
  for (const Side& side : sides) {
    if (Status status = check_offsets(p, side); !status) return status;
    if (Status status = check_sequences(p, side); !status) return status;
  }
  return check_cache(p, arguments);
}

}  // namespace regard
