// kernels/sm90/latent.cu: blocks that get their work as those of forward.cu do.
#include <fmt/format.h>

#include <set>

#include "kernels/sm90/forward_schedule.h"
#include "kernels/sm90/latent_layout.h"
#include "plan/gpu_rows.h"
#include "plan/kernels/kernels.h"
#include "plan/kernels/sm90_boxes.h"
#include "plan/kernels/sm90_forward.h"
#include "plan/kernels/sm90_tile.h"
#include "plan/kernels/sm90_unsupported.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"
#include "plan/stage.h"
#include "problem/tensors.h"

namespace regard {
namespace {

constexpr std::string_view portable = "portable_forward";
constexpr BoxesOf latent{"sm90_latent", portable};

std::int64_t shared_bytes(const KernelKey& key) {
  return Sm90LatentLayout(sm90_tile_shape(key.signature, key.algorithm)).total();
}

Refusal supports_features(const Question& q) {
  const Problem& p = q.problem;
  if (!p.latent || p.d != Sm90LatentLayout::d || p.dv != Sm90LatentLayout::dv)
    return fmt::format("it is only for latent attention with d={} and dv={}", Sm90LatentLayout::d,
                       Sm90LatentLayout::dv);
  if (bytes_of(p.dtype) != 2) return unsupported("inputs other than bf16 and fp16", portable);
  if (p.out != p.dtype) return unsupported("output of a type other than Q's", portable);
  if (p.kv != p.dtype) return unsupported("keys and values of a type other than Q's", portable);
  if (p.batch_invariant)
    return fmt::format(
        "with batch_invariant a row must have the same bits whatever the page size, and this kernel supports "
        "only some sizes; use {}",
        portable);
  if (p.bias != Bias::none) return unsupported("a bias", portable);
  if (p.dropout > 0) return unsupported("dropout", portable);
  if (p.bits) return unsupported("bit masks", portable);
  if (p.ranges) return unsupported("row ranges", portable);
  if (p.left_padding && p.paged > 0) return unsupported("left padding in pages", portable);
  if (p.paged > 0 && p.kv_layout != KvLayout::linear) return unsupported("vectorized pages", portable);
  Problem in_one = p;  // it takes K in two tensors, too
  in_one.k_rope = false;
  return sm90_unsupported(in_one, portable);
}

Refusal pages_are_boxes(const Question& q) {
  if (!gathers(q.problem, q.candidate.tile->algorithm.block_k)) return {};
  return fmt::format("it takes only pages of a multiple of {} rows, in boxes; {} takes any",
                     Sm90ForwardLayout::least_box_k, portable);
}

Refusal shared_memory_fits(const Question& q) {
  const KernelKey key{signature(q.problem), q.candidate.tile->algorithm, q.target.name};
  return fits_in_shared_memory(q, shared_bytes(key) + Sm90LatentLayout::static_bytes);
}

std::span<const Rule> own_rules() {
  static constexpr Rule list[] = {
      {"pages_are_boxes", pages_are_boxes, true},
      {"ragged_maps_fit", ragged_maps_fit, true},
      {"split_pays", split_pays, true},
      {"long_sums", long_sums, true},
      {"combine_columns", combine_columns},
      {"supports_features", supports_features},
      {"launch_fits", launch_fits},
      {"shared_memory_fits", shared_memory_fits},
      {"fragments_divide", fragments_divide},
  };
  return list;
}

/// Whether heads share a block and whether the keys are split is compiled in.
std::vector<KernelKey> variants(const Question& q, const KernelKey& of_tile) {
  Problem example = q.problem;
  const std::int64_t block_q = of_tile.algorithm.block_q;
  const bool hides_nothing = mask_hides_nothing(q.problem);
  std::set<bool> packs;
  for (const std::int64_t heads : {1, 2}) {
    for (const std::int64_t sq : {std::int64_t{1}, std::int64_t{2}, 2 * block_q}) {
      example.hq = example.hk * heads;
      example.sq = sq;
      if (mask_hides_nothing(example) == hides_nothing)
        packs.insert(pack_gqa_rows_of_head(example, block_q) > 0);
    }
  }
  std::vector<KernelKey> keys;
  for (const bool packs_heads : packs) {
    KernelKey& key = keys.emplace_back(of_tile);
    key.algorithm.pack_gqa = packs_heads ? 1 : 0;
    if (!splits_keys(*q.candidate.recipe)) continue;
    keys.push_back(key);
    keys.back().algorithm.split = 1;
  }
  return keys;
}

/// K, or its two parts, through one map for the columns of V and one for the others.
Result<TensorBoxes> boxes(const Plan& plan, const Stage& stage, const Arguments& arguments) {
  const Problem& p = plan.problem;
  // Without keys there is no K; its maps then describe a tensor that exists.
  const bool has_keys = p.sk > 0 && !is_empty(tensor_spec(p, REGARD_K)), apart = has_keys && p.k_rope;
  const Rows &k_rows = has_keys ? arguments.k : arguments.q, &rope_rows = apart ? arguments.k_rope : k_rows;
  const BoxedRows q = rows_of_queries(p, "q", arguments.q, p.d, p.dtype),
                  k = rows_of_keys(p, "k", k_rows, apart ? p.dv : p.d, p.dtype),
                  rope =
                      rows_of_keys(p, apart ? "k_rope" : "k", rope_rows, apart ? p.d - p.dv : p.d, p.dtype),
                  o = rows_of_queries(p, "o", arguments.o, p.dv, p.out);
  for (const BoxedRows* tensor : {&q, &k, &rope}) {
    if (Status status = reachable(p, *tensor, latent); !status) return tl::unexpected(status.error());
  }
  const Algorithm& a = stage.key.algorithm;
  if (a.split == 0) {  // else another kernel stores O
    if (Status status = aligned(without_map(o), latent); !status) return tl::unexpected(status.error());
  }
  const auto schedule = stage.schedule.as<Sm90ForwardSchedule>();
  const std::int64_t rows = a.pack_gqa > 0 ? std::int64_t{1} << schedule.row_bits : a.block_q;
  const std::int64_t keys = p.paged > 0 ? schedule.box_k : a.block_k;
  return TensorBoxes{{box_of(p, q, rows, a.block_q / rows), box_of(p, k, keys), box_of(p, rope, keys)}, 3};
}

constexpr Feature features[] = {Feature::wgmma, Feature::tma};
constexpr AlgorithmField required[] = {&Algorithm::block_q, &Algorithm::block_k, &Algorithm::warps,
                                       &Algorithm::stages};

}  // namespace

Result<Plan> plan_sm90_latent(const Problem& problem, const Target& target, const Target::Tile& tile,
                              const PlanOptions& options) {
  return plan_sm90_parts(sm90_latent, problem, target, tile, options, 1);
}

Result<Plan> plan_sm90_latent_split(const Problem& problem, const Target& target, const Target::Tile& tile,
                                    const PlanOptions& options) {
  return plan_sm90_split(sm90_latent, problem, target, tile, options);
}

const Kernel sm90_latent{
    .name = "sm90_latent",
    .features = features,
    .depends_on = inner_loop_on_hopper,
    .schedule = {"Sm90ForwardSchedule", sizeof(Sm90ForwardSchedule), sm90_schedule_numbers},
    .required = required,
    .rules = own_rules,
    .seconds = sm90_forward_seconds,
    .dynamic_shared_bytes = shared_bytes,
    .variants = variants,
    .boxes = boxes};

}  // namespace regard
