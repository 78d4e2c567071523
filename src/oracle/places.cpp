#include "oracle/places.h"

#include "oracle/number.h"
#include "problem/tensors.h"

namespace regard::oracle {

std::int64_t Places::integer(regard_role role, std::int64_t index) const {
  const regard_tensor& tensor = arguments_.tensor[role];
  return static_cast<std::int64_t>(decode(tensor.dtype, tensor.data, index));
}

std::int64_t Places::page(std::int64_t batch, std::int64_t block) const {
  if (problem_.table == PageTable::sglang)
    return integer(REGARD_PAGE_LIST, integer(REGARD_PAGE_OFFSETS, batch) + block);
  const regard_tensor& table = arguments_.tensor[REGARD_PAGE_TABLE];
  return integer(REGARD_PAGE_TABLE, batch * table.strides[0] + block);
}

Place Places::of_row(std::int64_t batch, std::int64_t row) const {
  if (problem_.paged > 0) return {page(batch, row / problem_.paged), row % problem_.paged};
  if (packs_keys(problem_)) return {0, row};
  const bool picked = arguments_.tensor[REGARD_CACHE_INDEX].data != nullptr;
  return {picked ? integer(REGARD_CACHE_INDEX, batch) : batch, row};
}

Place Places::of_slot(std::int64_t token) const {
  const std::int64_t slot = integer(REGARD_SLOTS, token),
                     rows = problem_.paged > 0 ? problem_.paged : problem_.sk;
  return slot < 0 ? Place{0, -1} : Place{slot / rows, slot % rows};
}

KvIndex::KvIndex(const Problem& problem, regard_role role, int rank, const std::int64_t* strides) {
  if (problem.paged > 0 && problem.kv_layout == KvLayout::vectorized) {
    // K [pages, hk, d/x, page*x], V [pages, hk, page/x, dv*x], x elements in 16 bytes
    batch_ = strides[0], head_ = strides[1], row_ = strides[2];
    together_ = 16 / static_cast<std::int64_t>(bytes_of(problem.kv));
    of_columns_ = role == REGARD_K;
  } else if (rank == 4) {  // [b|cache|pages, s|page, hk, d]
    batch_ = strides[0], head_ = strides[2], row_ = strides[1];
  } else {  // [tokens, hk, d]
    batch_ = 0, head_ = strides[1], row_ = strides[0];
  }
}

StoredKeys::StoredKeys(const Problem& problem, const regard_arguments& arguments, regard_role role)
    : side(side_of(problem, role)),
      tensor_(arguments.tensor[side]),
      rest_(arguments.tensor[problem.k_rope ? REGARD_K_ROPE : side]),
      index_(problem, side, tensor_.rank, tensor_.strides),
      index_of_rest_(problem, side, rest_.rank, rest_.strides),
      columns_(side == REGARD_K ? columns_of_k(problem) : problem.dv) {}

double StoredKeys::at(const Place& place, std::int64_t head, std::int64_t column) const {
  if (column < columns_) return decode(tensor_.dtype, tensor_.data, index_.at(place, head, column));
  return decode(rest_.dtype, rest_.data, index_of_rest_.at(place, head, column - columns_));
}

}  // namespace regard::oracle
