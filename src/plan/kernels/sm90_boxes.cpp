#include "plan/kernels/sm90_boxes.h"

#include <fmt/format.h>

#include "kernels/sm90/boxes.h"
#include "plan/stage.h"
#include "problem/tensors.h"

namespace regard {

bool is_ragged(const Problem& p) {
  return has_own_lengths(p) || is_cache(p);
}

namespace {

std::int64_t whole_vector(const BoxedRows& tensor) {
  return static_cast<std::int64_t>(16 / bytes_of(tensor.dtype));
}

/// A dimension of size 1 may have any stride, but TMA requires a valid one.
BoxedRows with_strides_in_use(BoxedRows tensor, bool ragged) {
  const std::int64_t unused = whole_vector(tensor);
  // Nothing is read through the map of a tensor without rows, but it must be a valid map.
  if (tensor.count == 0) {
    tensor.rows = {tensor.rows.data, unused, unused, unused};
    tensor.count = 1;
  }
  // A ragged map steps from batch to batch by rows.
  if (tensor.count <= 1 && !(ragged && tensor.batches > 1)) tensor.rows.row = unused;
  if (tensor.heads <= 1) tensor.rows.head = unused;
  if (tensor.batches <= 1) tensor.rows.batch = unused;
  return tensor;
}

}  // namespace

BoxedRows rows_of_queries(const Problem& p, const char* name, const Rows& rows, std::int64_t columns,
                          DType dtype) {
  return with_strides_in_use(
      {name, dtype, rows, columns, p.varlen ? query_tokens(p) : p.sq, p.hq, p.varlen ? 1 : p.b},
      is_ragged(p));
}

BoxedRows rows_of_keys(const Problem& p, const char* name, const Rows& rows, std::int64_t columns,
                       DType dtype) {
  BoxedRows keys{name, dtype, rows, columns, p.sk, p.hk, p.cache != 0 ? p.cache : p.b};
  if (packs_keys(p)) keys.count = key_tokens(p), keys.batches = 1;
  if (p.paged > 0) keys.count = p.paged, keys.batches = tensor_spec(p, REGARD_K).shape[0];
  return with_strides_in_use(keys, is_ragged(p));
}

BoxedRows without_map(BoxedRows tensor) {
  return with_strides_in_use(tensor, false);
}

Status aligned(const BoxedRows& tensor, const BoxesOf& of) {
  const std::int64_t together = whole_vector(tensor);
  if (reinterpret_cast<std::uintptr_t>(tensor.rows.data) % 16 != 0)
    return refused(fmt::format(
        "{} does not start at a multiple of 16 bytes, which {} requires; family={} takes any start",
        tensor.name, of.kernel, of.instead));
  for (const std::int64_t stride : {tensor.rows.row, tensor.rows.head, tensor.rows.batch}) {
    if (stride % together == 0) continue;
    return refused(
        fmt::format("{} has a stride of {} elements, and {} takes multiples of {}; family={} takes any",
                    tensor.name, stride, of.kernel, together, of.instead));
  }
  return {};
}

Status reachable(const Problem& p, const BoxedRows& tensor, const BoxesOf& of) {
  if (Status status = aligned(tensor, of); !status) return status;
  const auto bytes = static_cast<std::int64_t>(bytes_of(tensor.dtype));
  const Rows& rows = tensor.rows;
  // The limit of a ragged map; without one, TMA supports 2^40.
  constexpr std::int64_t most_bytes = std::int64_t{1} << 34;
  for (const std::int64_t stride : {rows.row, rows.head, rows.batch}) {
    if (stride > 0 && stride < most_bytes / bytes) continue;
    return refused(fmt::format(
        "{} has a stride of {} elements, and TMA takes positive ones below {}; family={} takes any",
        tensor.name, stride, most_bytes / bytes, of.instead));
  }
  if (!is_ragged(p) || tensor.batches <= 1) return {};
  if (rows.batch % rows.row != 0)
    return refused(
        fmt::format("{} has lengths and a batch stride of {}, which is not a multiple of its row stride {}; "
                    "family={} takes any",
                    tensor.name, rows.batch, rows.row, of.instead));
  // A ragged map counts rows over all batches, in 32 bits.
  const std::int64_t last = product({tensor.batches - 1, rows.batch / rows.row});
  if (last + tensor.count >= std::int64_t{1} << 31)
    return refused(
        fmt::format("{} reaches over 2^31 rows, which TMA does not count; family={} takes any number",
                    tensor.name, of.instead));
  return {};
}

namespace {

/// A tensor of `count` rows in each of `heads` x `batches`: boxes of `box_rows` rows of `box_heads` heads,
/// together group_rows for Q, and block_k rows of one head for K and V. `ragged`, with offsets or lengths: a
/// load must end with its sequence, wherever that ends in memory; batch strides are then multiples of row
/// strides.
///
/// A ragged map gives address = column + row + end + back + head. `row` counts from most_map_rows - length,
/// so that everything past the length is out of bounds; `end`, the rows up to the sequence's end, shifts it
/// to the right address; and `back` subtracts most_map_rows again, as most_map_rows steps of 2^34 - stride
/// are most_map_rows * -stride modulo 2^64. Swizzle: 128 bytes; elements out of bounds are zeros.
TensorMapShape shape_of(const TensorBox& tensor) {
  const u64 bytes = bytes_of(tensor.dtype), row = static_cast<u64>(tensor.rows.row) * bytes,
            head = static_cast<u64>(tensor.rows.head) * bytes,
            batch = static_cast<u64>(tensor.rows.batch) * bytes;
  const auto columns = static_cast<u64>(tensor.columns), count = static_cast<u64>(tensor.count),
             heads = static_cast<u64>(tensor.heads), batches = static_cast<u64>(tensor.batches);
  const auto box_columns = static_cast<u32>(Sm90Boxes::box_bytes / static_cast<i64>(bytes)),
             box_rows = static_cast<u32>(tensor.box_rows), box_heads = static_cast<u32>(tensor.box_heads);
  if (tensor.ragged) {
    constexpr u64 most = Sm90Boxes::most_map_rows;
    const u64 all_rows = batches > 1 ? (batches - 1) * (batch / row) + count : count;
    return {5,
            {columns, most, all_rows + 1, most + 1, heads},
            {row, row, (u64{1} << 34) - row, head},
            {box_columns, box_rows, 1, 1, box_heads}};
  }
  return {4,
          {columns, count, heads, batches, 1},
          {row, head, batch, 0},
          {box_columns, box_rows, box_heads, 1, 1}};
}

}  // namespace

TensorBox box_of(const Problem& p, const BoxedRows& tensor, std::int64_t box_rows, std::int64_t box_heads) {
  return {tensor.name, tensor.rows, tensor.columns, tensor.count, tensor.heads, tensor.batches,
          box_rows,    box_heads,   tensor.dtype,   is_ragged(p), shape_of};
}

}  // namespace regard
