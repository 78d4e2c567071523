#include "plan/rules.h"

namespace regard {

std::span<const Rule> rules() {
#define REGARD_RULE(name) {#name, name}
#define REGARD_SHAPE_RULE(name) {#name, name, true}
  static constexpr Rule list[] = {
      REGARD_RULE(family_matches),
      REGARD_RULE(asked_for),
      REGARD_RULE(not_disabled),

      REGARD_RULE(dtype_on_target),
      REGARD_RULE(backward_dtype),
      REGARD_RULE(dtypes_go_together),
      REGARD_RULE(softcap_without_bias),
      REGARD_RULE(kernel_takes_dtype),
      REGARD_RULE(head_dims_fit),
      REGARD_RULE(head_dims_aligned),
      REGARD_RULE(wide_heads_are_plain),

      REGARD_RULE(tile_is_complete),
      REGARD_RULE(cpu_tile_sizes),
      REGARD_SHAPE_RULE(positions_fit),
      REGARD_SHAPE_RULE(few_query_rows),
      REGARD_RULE(decode_without_dropout),
      REGARD_SHAPE_RULE(splits_allowed),
      REGARD_SHAPE_RULE(long_sums),
      REGARD_RULE(split_is_invariant),
      REGARD_RULE(paged_cache),
      REGARD_RULE(batch_prefill_inputs),
      REGARD_RULE(append_is_dense),
      REGARD_RULE(append_has_a_tile),
      REGARD_RULE(combine_columns),

      REGARD_RULE(pipeline_on_target),
      REGARD_RULE(pipeline_has_features),
      REGARD_RULE(pipeline_fits_family),
      REGARD_RULE(hopper_forward),
      REGARD_RULE(hopper_tile),
      REGARD_RULE(hopper_cluster),
      REGARD_SHAPE_RULE(hopper_cluster_shape),
      REGARD_SHAPE_RULE(hopper_packing),
      REGARD_RULE(trload_head_dims),
      REGARD_RULE(v3_tile),
      REGARD_RULE(batch_prefill_gfx11),

      REGARD_RULE(launch_fits),
      REGARD_RULE(two_warps_share_rows),
      REGARD_RULE(shared_memory_fits),
      REGARD_RULE(accumulators_leave_room),
      REGARD_RULE(steps_divide),
      REGARD_RULE(fragments_divide),
      REGARD_RULE(wide_qr_fragments),
      REGARD_RULE(cdna_tile_shape),
      REGARD_RULE(async_loads_are_even),

      REGARD_RULE(kernel_exists),
  };
#undef REGARD_SHAPE_RULE
#undef REGARD_RULE
  return list;
}

}  // namespace regard
