// The tensors of kernels/sm90/forward.cu as boxes that the tensor memory unit (TMA) moves. It wants starts
// and strides in whole 16 bytes (CUDA driver API, cuTensorMapEncodeTiled), and so do threads that store O; a
// merge of parts does not.
#include <fmt/format.h>

#include <algorithm>

#include "plan/kernels/sm90_forward.h"

namespace regard {
namespace {

/// One of Q, K, V and O.
struct Tensor {
  const char* name;
  DType dtype;
  Rows rows;
  std::int64_t columns, count, heads, batches;
};

/// A dimension of size 1 may have any stride; TMA wants a valid one all the same.
Tensor with_strides_in_use(Tensor tensor, bool ragged) {
  const auto unused = static_cast<std::int64_t>(16 / bytes_of(tensor.dtype));
  // A ragged map goes from batch to batch by rows.
  if (tensor.count <= 1 && !(ragged && tensor.batches > 1)) tensor.rows.row = unused;
  if (tensor.heads <= 1) tensor.rows.head = unused;
  if (tensor.batches <= 1) tensor.rows.batch = unused;
  return tensor;
}

struct Tensors {
  Tensor q, k, v, o;
};

bool is_ragged(const Problem& p) {
  return p.varlen || p.lengths;
}

Tensors tensors_of(const Problem& p, const Arguments& a) {
  const std::int64_t batches = p.varlen ? 1 : p.b, keys = p.varlen ? p.tk : p.sk,
                     queries = p.varlen ? p.tq : p.sq;
  const auto used = [&](Tensor tensor) { return with_strides_in_use(tensor, is_ragged(p)); };
  Tensors all{used({"q", p.dtype, a.q, p.d, queries, p.hq, batches}),
              used({"k", p.dtype, a.k, p.d, keys, p.hk, batches}),
              used({"v", p.dtype, a.v, p.dv, keys, p.hk, batches}),
              used({"o", p.out, a.o, p.dv, queries, p.hq, batches})};
  if (keys > 0) return all;
  // Without keys there is no K and no V to describe; nothing is read through their maps then.
  const auto unused = static_cast<std::int64_t>(16 / bytes_of(p.dtype));
  all.k.rows = all.v.rows = Rows{a.q.data, unused, unused, unused};
  return all;
}

/// What threads that store 16 bytes at a time ask for, and maps too.
Status aligned(const Tensor& tensor) {
  const auto together = static_cast<std::int64_t>(16 / bytes_of(tensor.dtype));
  if (reinterpret_cast<std::uintptr_t>(tensor.rows.data) % 16 != 0)
    return refused(
        fmt::format("{} does not start at a multiple of 16 bytes, which sm90_forward asks for; "
                    "family=portable_forward takes any start",
                    tensor.name));
  for (const std::int64_t stride : {tensor.rows.row, tensor.rows.head, tensor.rows.batch}) {
    if (stride % together == 0) continue;
    return refused(
        fmt::format("{} has a stride of {} elements, and sm90_forward takes multiples of {}; "
                    "family=portable_forward takes any",
                    tensor.name, stride, together));
  }
  return {};
}

Status reachable(const Problem& p, const Tensor& tensor) {
  if (Status status = aligned(tensor); !status) return status;
  const auto bytes = static_cast<std::int64_t>(bytes_of(tensor.dtype));
  const Rows& rows = tensor.rows;
  // The ragged map's limit; without, TMA takes 2^40.
  constexpr std::int64_t most_bytes = std::int64_t{1} << 34;
  for (const std::int64_t stride : {rows.row, rows.head, rows.batch}) {
    if (stride > 0 && stride < most_bytes / bytes) continue;
    return refused(
        fmt::format("{} has a stride of {} elements, and TMA takes positive ones below {}; "
                    "family=portable_forward takes any",
                    tensor.name, stride, most_bytes / bytes));
  }
  if (is_ragged(p) && tensor.batches > 1 && rows.batch % rows.row != 0)
    return refused(
        fmt::format("{} has lengths and a batch stride of {}, which is no multiple of its row stride {}; "
                    "family=portable_forward takes any",
                    tensor.name, rows.batch, rows.row));
  return {};
}

/// A tensor of `count` rows in each of `heads` x `batches`: boxes of `box_rows` rows of `box_heads` heads,
/// together group_rows for Q, and block_k of one for K and V. `ragged`, with offsets or lengths: a load must
/// end with its sequence, wherever that ends in memory; row strides then divide batch strides.
///
/// A ragged map gives address = column + row + end + back + head. `row` counts from most_map_rows - length,
/// so that what lies past the length is outside; `end`, the rows up to the sequence's end, moves it into
/// place; and `back` takes most_map_rows off again, as most_map_rows steps of 2^34 - stride are most_map_rows
/// * -stride modulo 2^64. Swizzle: 128 bytes; elements outside are zeros.
TensorMapShape shape_of(const TensorBox& tensor) {
  const u64 bytes = bytes_of(tensor.dtype), row = static_cast<u64>(tensor.rows.row) * bytes,
            head = static_cast<u64>(tensor.rows.head) * bytes,
            batch = static_cast<u64>(tensor.rows.batch) * bytes;
  const auto columns = static_cast<u64>(tensor.columns), count = static_cast<u64>(tensor.count),
             heads = static_cast<u64>(tensor.heads), batches = static_cast<u64>(tensor.batches);
  const auto box_columns = static_cast<u32>(Sm90ForwardLayout::box_bytes / static_cast<i64>(bytes)),
             box_rows = static_cast<u32>(tensor.box_rows), box_heads = static_cast<u32>(tensor.box_heads);
  if (tensor.ragged) {
    constexpr u64 most = Sm90ForwardLayout::most_map_rows;
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

TensorBox box_of(const Problem& p, const Tensor& tensor, std::int64_t box_rows, std::int64_t box_heads = 1) {
  return {tensor.name, tensor.rows, tensor.columns, tensor.count, tensor.heads, tensor.batches,
          box_rows,    box_heads,   tensor.dtype,   is_ragged(p), shape_of};
}

/// Whether O is stored through a map.
bool stores_boxes(const KernelKey& kernel) {
  return sm90_layout(kernel).stores_boxes(kernel.algorithm.split, kernel.algorithm.pack_gqa);
}

/// Where the keys are split, another kernel stores O. Threads take no steps from row to row of one, as a
/// ragged map does.
Status output_fits(const Problem& p, const KernelKey& kernel, const Tensor& o) {
  if (kernel.algorithm.split > 0) return {};
  return stores_boxes(kernel) ? reachable(p, o) : aligned(with_strides_in_use(o, false));
}

}  // namespace

Result<TensorBoxes> sm90_forward_boxes(const Plan& plan, const Stage& stage, const Arguments& arguments) {
  const Problem& p = plan.problem;
  const Tensors all = tensors_of(p, arguments);
  for (const Tensor* tensor : {&all.q, &all.k, &all.v})
    if (Status status = reachable(p, *tensor); !status) return tl::unexpected(status.error());
  if (Status status = output_fits(p, stage.key, all.o); !status) return tl::unexpected(status.error());

  const Algorithm& a = stage.key.algorithm;
  constexpr std::int64_t group_rows = Sm90ForwardLayout::group_rows;
  const std::int64_t rows =
      std::min<std::int64_t>(Sm90ForwardLayout::rows_of_head(a.block_q, a.pack_gqa), group_rows);
  const TensorBox q = box_of(p, all.q, rows, group_rows / rows);
  // Where the kernel stores O without a map it takes any.
  const TensorBox o = stores_boxes(stage.key) ? box_of(p, all.o, Sm90ForwardLayout::warp_rows) : q;
  return TensorBoxes{{q, box_of(p, all.k, a.block_k), box_of(p, all.v, a.block_k), o}, 4};
}

}  // namespace regard
