#include "engine/tensor_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>

#include "base/of_thread.h"
#include "kernels/sm90/forward_layout.h"

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
        fmt::format("{} does not start at a multiple of 16 bytes, which the Hopper kernel asks for; "
                    "family=mma_async takes any start",
                    tensor.name));
  for (const std::int64_t stride : {tensor.rows.row, tensor.rows.head, tensor.rows.batch}) {
    if (stride % together == 0) continue;
    return refused(
        fmt::format("{} has a stride of {} elements, and the Hopper kernel takes multiples of {}; "
                    "family=mma_async takes any",
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
                    "family=mma_async takes any",
                    tensor.name, stride, most_bytes / bytes));
  }
  if (is_ragged(p) && tensor.batches > 1 && rows.batch % rows.row != 0)
    return refused(
        fmt::format("{} has lengths and a batch stride of {}, which is no multiple of its row stride {}; "
                    "family=mma_async takes any",
                    tensor.name, rows.batch, rows.row));
  return {};
}

gpu::BoxedTensor::Type map_type(DType dtype) {
  using Type = gpu::BoxedTensor::Type;
  if (bytes_of(dtype) == 1) return Type::uint8;
  return dtype == DType::fp16 ? Type::fp16 : Type::bf16;
}

/// All that a map follows from, so that nothing remembered ever grows stale.
struct Boxes {
  Rows rows;
  std::int64_t columns, count, heads, batches;
  std::int64_t box_rows, box_heads;
  DType dtype;
  bool ragged;

  bool operator==(const Boxes& other) const {
    const auto all = [](const Boxes& b) {
      return std::tie(b.rows.data, b.rows.batch, b.rows.head, b.rows.row, b.columns, b.count, b.heads,
                      b.batches, b.box_rows, b.box_heads, b.dtype, b.ragged);
    };
    return all(*this) == all(other);
  }
};

Status encode(const Boxes& boxes, const char* name, gpu::TensorMap& map) {
  const Sm90TensorMap wanted =
      sm90_tensor_map(boxes.rows, boxes.columns, boxes.count, boxes.heads, boxes.batches, boxes.box_rows,
                      boxes.box_heads, static_cast<std::int64_t>(bytes_of(boxes.dtype)), boxes.ragged);
  gpu::BoxedTensor boxed{boxes.rows.data, map_type(boxes.dtype), wanted.rank, {}, {}, {}};
  for (std::size_t i = 0; i < 5; ++i) {
    boxed.sizes[i] = std::max<std::uint64_t>(wanted.extent[i], 1);
    boxed.box[i] = wanted.box[i];
  }
  for (std::size_t i = 0; i < 4; ++i) boxed.strides[i] = wanted.stride[i];
  return gpu::encode(boxed, name, map);
}

/// A thread's last maps, enough for the layers of a model in turns. A map stands at one of a few places from
/// its hash on; of those the one unused for longest makes room, which is never one of the same call.
class Recent {
 public:
  Status find(const Boxes& boxes, const char* name, const gpu::TensorMap*& found) {
    const std::size_t start = hash(boxes);
    Entry* oldest = &entries_[start % places];
    for (std::size_t probe = 0; probe < probes; ++probe) {
      Entry& entry = entries_[(start + probe) % places];
      if (entry.boxes == boxes) {
        entry.last_use = ++uses_;
        found = &entry.map;
        return {};
      }
      if (entry.last_use < oldest->last_use) oldest = &entry;
    }
    oldest->boxes = {};
    if (Status status = encode(boxes, name, oldest->map); !status) return status;
    oldest->boxes = boxes;
    oldest->last_use = ++uses_;
    found = &oldest->map;
    return {};
  }

 private:
  static constexpr std::size_t places = 512, probes = 8;
  static_assert(probes > 4);  // Q, K, V and O of a call

  struct Entry {
    Boxes boxes;  ///< without boxes: none yet
    std::uint64_t last_use;
    gpu::TensorMap map;
  };

  static std::size_t hash(const Boxes& boxes) {
    std::uint64_t value = reinterpret_cast<std::uintptr_t>(boxes.rows.data) / 16;
    for (const std::int64_t more : {std::int64_t{boxes.rows.row}, boxes.count, boxes.box_rows})
      value = (value ^ static_cast<std::uint64_t>(more)) * 0x9E3779B97F4A7C15ull;
    return value >> 32;
  }

  std::array<Entry, places> entries_{};
  std::uint64_t uses_ = 0;
};

/// 128 KiB, for threads that come here alone.
const OfThread<Recent> recent_of_thread;

Boxes boxes_of(const Problem& p, const Tensor& tensor, std::int64_t box_rows, std::int64_t box_heads = 1) {
  return {tensor.rows, tensor.columns, tensor.count, tensor.heads, tensor.batches,
          box_rows,    box_heads,      tensor.dtype, is_ragged(p)};
}

/// Whether a stage's kernel stores O through a map.
bool stores_boxes(const Problem& p, const Stage& stage) {
  const Algorithm& a = stage.kernel.algorithm;
  const Sm90ForwardLayout layout(p.d, p.dv, a.block_q, a.block_k, a.stages,
                                 static_cast<std::int64_t>(bytes_of(p.dtype)));
  return takes_tensor_maps(stage) && layout.stores_boxes(a.split, a.group);
}

}  // namespace

bool takes_tensor_maps(const Stage& stage) {
  return stage.kernel.algorithm.pipeline == "wgmma_tma";
}

Status hopper_takes(const Plan& plan, const Arguments& arguments) {
  if (std::none_of(plan.stages.begin(), plan.stages.end(), takes_tensor_maps)) return {};
  const Problem& p = plan.problem;
  const Tensors all = tensors_of(p, arguments);
  for (const Tensor* tensor : {&all.q, &all.k, &all.v})
    if (Status status = reachable(p, *tensor); !status) return status;
  for (const Stage& stage : plan.stages) {
    // Where the keys are split, another kernel stores O.
    if (!takes_tensor_maps(stage) || stage.kernel.algorithm.split > 0) continue;
    // Threads take no steps from row to row of one, as a ragged map does.
    Status status = stores_boxes(p, stage) ? reachable(p, all.o) : aligned(with_strides_in_use(all.o, false));
    if (!status) return status;
  }
  return {};
}

Status tensor_maps(const Plan& plan, const Stage& stage, const Arguments& arguments, TensorMaps& maps) {
  const Problem& p = plan.problem;
  const Tensors all = tensors_of(p, arguments);
  const Algorithm& algorithm = stage.kernel.algorithm;
  const std::int64_t block_k = algorithm.block_k;
  constexpr std::int64_t group_rows = Sm90ForwardLayout::group_rows;
  const std::int64_t rows =
      std::min<std::int64_t>(Sm90ForwardLayout::rows_of_head(algorithm.block_q, algorithm.group), group_rows);
  if (recent_of_thread.get() == nullptr && !recent_of_thread.set(std::make_unique<Recent>()))
    return fail(ErrorKind::no_memory, "out of memory");
  Recent* const recent = recent_of_thread.get();
  Status status = recent->find(boxes_of(p, all.q, rows, group_rows / rows), "q", maps.q);
  if (status) status = recent->find(boxes_of(p, all.k, block_k), "k", maps.k);
  if (status) status = recent->find(boxes_of(p, all.v, block_k), "v", maps.v);
  maps.o = maps.q;
  if (status && stores_boxes(p, stage))
    status = recent->find(boxes_of(p, all.o, Sm90ForwardLayout::warp_rows), "o", maps.o);
  return status;
}

}  // namespace regard
