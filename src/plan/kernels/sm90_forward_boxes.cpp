// The tensors of kernels/sm90/forward.cu as boxes.
#include "plan/kernels/sm90_boxes.h"

#include <algorithm>

#include "kernels/sm90/forward_schedule.h"
#include "plan/kernels/sm90_forward.h"
#include "plan/stage.h"
#include "problem/tensors.h"

namespace regard {
namespace {

constexpr BoxesOf forward{"sm90_forward", "portable_forward"};

/// Whether O is stored through a map.
bool stores_boxes(const KernelKey& kernel) {
  return sm90_layout(kernel).stores_boxes(kernel.algorithm.split, kernel.algorithm.pack_gqa);
}

/// If the keys are split, another kernel stores O.
Status output_fits(const Problem& p, const KernelKey& kernel, const BoxedRows& o) {
  if (kernel.algorithm.split > 0) return {};
  return stores_boxes(kernel) ? reachable(p, o, forward) : aligned(without_map(o), forward);
}

}  // namespace

Result<TensorBoxes> sm90_forward_boxes(const Plan& plan, const Stage& stage, const Arguments& arguments) {
  const Problem& p = plan.problem;
  // Without keys there is no K and no V; their maps then describe tensors that exist.
  const bool has_keys = p.sk > 0 && !is_empty(tensor_spec(p, REGARD_K));
  const Rows &k_rows = has_keys ? arguments.k : arguments.q, &v_rows = has_keys ? arguments.v : arguments.q;
  const BoxedRows q_rows = rows_of_queries(p, "q", arguments.q, p.d, p.dtype),
                  k = rows_of_keys(p, "k", k_rows, p.d, p.dtype),
                  v = rows_of_keys(p, "v", v_rows, p.dv, p.dtype),
                  o_rows = rows_of_queries(p, "o", arguments.o, p.dv, p.out);
  const Algorithm& a = stage.key.algorithm;
  const auto schedule = stage.schedule.as<Sm90ForwardSchedule>();
  if (Status status = reachable(p, q_rows, forward); !status) return tl::unexpected(status.error());
  for (const BoxedRows* tensor : {&k, &v}) {
    const Status status = a.gather > 0 ? aligned(*tensor, forward) : reachable(p, *tensor, forward);
    if (!status) return tl::unexpected(status.error());
  }
  if (Status status = output_fits(p, stage.key, o_rows); !status) return tl::unexpected(status.error());

  constexpr std::int64_t group_rows = Sm90ForwardLayout::group_rows;
  const std::int64_t rows =
      a.pack_gqa > 0 ? std::min<std::int64_t>(1 << schedule.row_bits, group_rows) : group_rows;
  const TensorBox q = box_of(p, q_rows, rows, group_rows / rows);
  // If the kernel stores O without a map, any tensor will do.
  const TensorBox o = stores_boxes(stage.key) ? box_of(p, o_rows, Sm90ForwardLayout::warp_rows) : q;
  if (a.gather > 0) return TensorBoxes{{q, q, q, o}, 4};
  const std::int64_t keys = p.paged > 0 ? schedule.box_k : a.block_k;
  return TensorBoxes{{q, box_of(p, k, keys), box_of(p, v, keys), o}, 4};
}

}  // namespace regard
