// Every rule accepts and refuses something. Tiles are made by hand where no target's table has the mistake.
#include "plan/rules.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "plan/recipe.h"
#include "problem/fields.h"

namespace regard {
namespace {

using testing::HasSubstr;

/// A candidate for one rule, with everything that the rule looks at.
struct Scene {
  /// The recipe is named by its main kernel: "sm90_forward", "sm90_forward_split".
  std::string_view rule, text, target, recipe;
  std::map<std::string, std::int64_t> tile;  ///< d, dv and Algorithm fields
  PlanOptions options = {};
};

std::optional<std::string> ask(const Scene& scene) {
  Problem problem = *parse(scene.text);
  if (problem.out == DType::bf16 && problem.dtype != DType::bf16) problem.out = default_out(problem.dtype);
  const Target& target = **find_target(scene.target);
  const auto found = std::ranges::find_if(recipes(), [&](const Recipe& one) {
    return std::string(one.main->name) + (one.name == "forward_split" ? "_split" : "") == scene.recipe;
  });
  if (found == recipes().end()) throw std::runtime_error("no recipe " + std::string(scene.recipe));
  Target::Tile tile;
  tile.algorithm.kernel = found->main->name;
  tile.dtypes = {DType::bf16, DType::fp16};
  for (const auto& [name, value] : scene.tile) {
    if (name == "d")
      tile.max_d = value;
    else if (name == "dv")
      tile.max_dv = value;
    else
      tile.algorithm.*find_algorithm_field(name) = value;
  }
  const Candidate candidate{&*found, &tile};
  for (const std::span<const Rule> rules : {general_rules(), found->main->rules()}) {
    for (const Rule& rule : rules)
      if (rule.name == scene.rule) return rule.check({problem, target, candidate, scene.options});
  }
  ADD_FAILURE() << "no rule " << scene.rule;
  return {};
}

using Tile = std::map<std::string, std::int64_t>;

/// A tile that all rules accept on sm_80.
Tile tile128(Tile changes = {}) {
  Tile tile = {{"d", 128},      {"dv", 128},       {"block_q", 128}, {"block_k", 128},
               {"block_d", 32}, {"block_dv", 128}, {"warps", 4}};
  for (const auto& [name, value] : changes) tile[name] = value;
  return tile;
}

/// Hopper's tile for few rows: one warpgroup multiplies.
Tile tile64() {
  return tile128({{"block_q", 64}, {"block_k", 64}, {"warps", 8}});
}

/// A tile with three warpgroups.
Tile tile192(Tile changes = {}) {
  Tile tile = tile128({{"block_q", 192}, {"block_k", 80}, {"warps", 16}});
  for (const auto& [name, value] : changes) tile[name] = value;
  return tile;
}

/// Hopper's tile for latent attention.
Tile tile_latent() {
  return {{"d", 576}, {"dv", 512}, {"block_q", 64}, {"block_k", 64}, {"warps", 12}, {"stages", 2}};
}

constexpr std::string_view fwd = "fwd bf16 b=2 h=4 s=1024 d=128";
constexpr std::string_view biased = "fwd bf16 b=2 h=4 s=1024 d=128 bias=bh";
constexpr std::string_view bwd = "bwd bf16 b=2 h=4 s=1024 d=128";

const std::vector<Scene>& accepted() {
  static const std::vector<Scene> list = {
      {"forward_tile_sizes", fwd, "cpu-avx2", "cpu_forward", {{"block_q", 64}, {"block_k", 48}}},
      {"decode_tile_sizes", fwd, "cpu-avx2", "cpu_decode", {{"block_k", 64}, {"pack_gqa", 4}}},
      {"decode_tile_sizes", fwd, "cpu-neon", "cpu_decode", {{"block_k", 64}, {"pack_gqa", 16}}},
      {"backward_tile_sizes", bwd, "cpu-avx2", "cpu_backward", {{"block_q", 16}, {"block_k", 48}}},
      {"backward_tile_sizes", bwd, "cpu-amx", "cpu_backward", {{"block_q", 64}, {"block_k", 32}}},
      {"asked_for", fwd, "sm_80", "portable_forward", {}, {.family = "forward"}},
      {"not_disabled", fwd, "sm_80", "portable_forward", {}, {.disabled = {"decode"}}},
      {"dtype_on_target", fwd, "sm_80", "portable_forward"},
      {"reads_cache", "fwd bf16 b=1 h=1 s=64 d=64 paged=7 left_padding", "sm_80", "portable_forward",
       tile128()},
      {"pages_are_boxes", "fwd bf16 b=1 h=1 s=64 d=64 paged=7", "sm_90a", "sm90_forward", tile64()},
      {"pages_are_boxes", "fwd fp8 b=1 h=1 s=64 d=64 paged=48", "sm_90a", "sm90_forward", tile128()},
      {"pages_are_boxes", "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent paged=48", "sm_90a", "sm90_latent",
       tile_latent()},
      {"supports_features", "fwd fp16 b=1 h=1 s=64 d=576 dv=512 latent k_rope cache=2 left_padding", "sm_90a",
       "sm90_latent", tile_latent()},
      {"shared_memory_fits", "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent", "sm_90a", "sm90_latent",
       tile_latent()},
      {"pages_are_boxes", "fwd bf16 b=1 h=1 s=64 d=64 cache=3 left_padding", "sm_90a", "sm90_forward",
       tile128()},
      {"new_tokens_on_target", "fwd bf16 b=2 h=4 sq=1 sk=64 d=128 snew=1 kv=int8 descale=head", "sm_80",
       "portable_forward"},
      {"cache_type_on_target", "append bf16 b=2 h=4 sk=64 d=128 snew=1 kv=fp8", "sm_90a", "portable_append"},
      {"cache_type_on_target", "append bf16 b=2 h=4 sk=64 d=128 snew=1 kv=int8", "sm_80", "portable_append"},
      {"kernel_takes_dtype", fwd, "sm_80", "portable_forward", tile128()},
      {"head_dims_fit", fwd, "sm_80", "portable_forward", tile128()},
      {"takes_functions", "fwd bf16 b=2 h=4 s=64 d=64 keep=kv<=q", "cpu-avx2", "cpu_generic_forward"},
      {"head_dims_aligned", fwd, "sm_80", "portable_forward", tile128()},
      {"positions_fit", "fwd bf16 b=1 h=1 sq=1 sk=2147418112 d=64", "cpu-avx2", "cpu_forward"},
      {"ragged_maps_fit", "fwd bf16 b=1 h=1 sq=1 sk=1073741824 d=64 lengths", "sm_90a", "sm90_forward",
       tile128()},
      {"few_query_rows",
       "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=64",
       "cpu-avx2",
       "cpu_decode",
       {{"d", 64}, {"dv", 64}, {"pack_gqa", 4}}},
      {"few_query_rows", "fwd bf16 b=1 hq=32 hk=2 sq=4 sk=64 d=64", "sm_80", "portable_decode"},
      {"has_many_rows", "fwd bf16 b=1 hq=8 hk=2 sq=5 sk=64 d=64", "sm_80", "portable_forward", tile128()},
      {"has_many_rows", "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=64 dropout=0.1", "sm_80", "portable_forward",
       tile128()},
      {"supports_features", "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=64 softcap=3", "sm_80", "portable_decode"},
      {"keys_fit_registers",
       "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=64 kv=int8 descale=tensor",
       "sm_80",
       "portable_decode",
       {{"block_k", 128}, {"warps", 4}}},
      {"columns_are_vectors", "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=72 dv=36", "sm_80", "portable_decode"},
      {"decode_without_dropout", fwd, "cpu-avx2", "cpu_decode"},
      {"split_pays",
       "fwd bf16 b=1 h=1 sq=64 sk=8192 d=64",
       "cpu-avx2",
       "cpu_forward_split",
       tile128(),
       {.threads = 8}},
      {"splits_allowed", "fwd bf16 b=8 h=8 s=64 d=64 splits=3", "cpu-avx2", "cpu_forward_split", tile128()},
      {"split_pays", "fwd bf16 b=32 hq=32 hk=8 sq=16 sk=8192 d=128", "sm_90a", "sm90_forward_split",
       tile128()},
      {"split_pays", "fwd bf16 b=64 h=64 sq=64 sk=65537 d=64", "sm_80", "portable_forward_split", tile128()},
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=65536 d=64", "sm_90a", "sm90_forward", tile128()},
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64 splits=1", "sm_90a", "sm90_forward", tile128()},
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64 mask=window:1024,0", "sm_90a", "sm90_forward",
       tile128()},
      // It stays in one part, as two would take more memory than allowed.
      {"long_sums", "fwd bf16 b=1 h=8 s=1048576 d=128", "sm_90a", "sm90_forward", tile128()},
      // Problems that cannot be split are computed whole, and with batch_invariant others are cut anyway.
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64 batch_invariant", "sm_90a", "sm90_forward",
       tile128()},
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64 dropout=0.1 dropout_mask", "sm_80",
       "portable_forward", tile128()},
      {"long_sums",
       "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64",
       "sm_90a",
       "sm90_forward",
       tile128(),
       {.disabled = {"split_kv"}}},
      {"packed_decode_is_invariant", "fwd bf16 b=1 h=1 sq=1 sk=8192 d=64 batch_invariant", "cpu-avx2",
       "cpu_decode"},
      {"split_is_invariant", fwd, "cpu-avx2", "cpu_forward_split"},
      {"reads_cache", "fwd bf16 b=1 h=1 s=64 d=64 paged=7 kv=int8 descale=token left_padding", "sm_80",
       "portable_forward"},
      {"reads_cache", "fwd fp16 b=1 h=1 s=64 d=64 kv=fp8 cache=3", "sm_90a", "portable_forward"},
      {"parts_are_invariant", "fwd bf16 b=1 h=1 sq=1 sk=4096 d=64 batch_invariant", "sm_80",
       "portable_forward", tile128()},
      {"parts_are_invariant", "fwd bf16 b=1 h=1 sq=1 sk=4096 d=64 batch_invariant sink", "sm_90a",
       "sm90_forward_split", tile128()},
      {"combine_columns", fwd, "sm_80", "portable_forward_split"},
      {"latent_tile", "fwd bf16 b=1 h=1 s=64 d=96 dv=64 latent k_rope", "sm_80", "portable_forward",
       tile128()},
      {"latent_tile",
       "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent k_rope kv=int8 descale=head",
       "sm_80",
       "portable_forward",
       {{"d", 576}, {"dv", 512}}},
      {"target_has_features", fwd, "sm_90a", "sm90_forward", tile128()},
      {"supports_features", fwd, "sm_90a", "sm90_forward", tile128()},
      {"supports_features", "fwd fp8 out=fp16 b=1 h=1 s=64 d=128 descale=head", "sm_90a", "sm90_forward",
       tile128()},
      {"smallest_tile", "fwd bf16 b=1 h=1 s=64 d=128 mask=causal", "sm_90a", "sm90_forward", tile192()},
      {"smallest_tile", fwd, "sm_90a", "sm90_forward_split", tile128()},
      {"registers_for_features", "bwd bf16 b=1 h=1 s=64 d=64 softcap=5", "sm_90a", "sm90_backward",
       tile128({{"block_q", 64}})},
      {"smallest_tile", "fwd bf16 b=1 h=1 s=64 d=128 softcap=5", "sm_90a", "sm90_forward", tile128()},
      {"smallest_tile", "fwd fp8 out=bf16 b=1 h=1 s=64 d=128 softcap=5 mask=causal", "sm_90a", "sm90_forward",
       tile128()},
      {"clusters_share_keys", "fwd bf16 b=1 h=1 s=300 d=128", "sm_90a", "sm90_forward",
       tile128({{"cluster", 2}})},
      {"clusters_share_keys", "fwd bf16 b=1 h=1 s=300 d=128 softcap=5", "sm_90a", "sm90_forward",
       tile128({{"cluster", 2}})},
      {"rows_for_clusters", "fwd bf16 b=1 h=1 s=300 d=128", "sm_90a", "sm90_forward",
       tile128({{"cluster", 2}})},
      {"bits_have_tiles", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=128 bits", "sm_90a", "sm90_forward", tile128()},
      {"packs_gqa", "fwd bf16 b=1 hq=4 hk=1 sq=20 sk=64 d=64", "sm_90a", "sm90_forward", tile128()},
      {"packs_gqa", "fwd bf16 b=1 hq=4 hk=1 sq=16 sk=64 d=64", "sm_90a", "sm90_forward", tile64()},
      {"packs_gqa", "fwd fp8 out=bf16 b=1 hq=4 hk=1 sq=16 sk=64 d=64", "sm_90a", "sm90_forward", tile128()},
      {"packs_gqa", "fwd fp8 out=bf16 b=1 hq=4 hk=1 sq=100 sk=64 d=64", "sm_90a", "sm90_forward", tile192()},
      {"launch_fits", fwd, "sm_80", "portable_forward", tile128()},
      {"two_warps_share_rows", fwd, "sm_90", "portable_forward", tile128()},
      {"two_warps_share_rows", fwd, "sm_90", "portable_forward",
       tile128({{"block_k", 64}, {"warps_across", 2}})},
      {"shared_memory_fits", fwd, "sm_80", "portable_forward", tile128()},
      {"shared_memory_fits", fwd, "sm_90a", "sm90_forward", tile192({{"stages", 2}})},
      {"accumulators_leave_room", fwd, "sm_80", "portable_forward", tile128()},
      {"accumulators_leave_room", biased, "sm_80", "portable_forward", tile128({{"block_q", 64}})},
      // Where accumulators have registers of their own, there is room for twice as many.
      {"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=64 bias=bh dropout=0.1", "gfx942",
       "portable_forward", tile128({{"block_q", 256}, {"block_k", 32}})},
      {"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=128 bits dropout=0.1", "sm_80", "portable_forward",
       tile128({{"block_k", 64}})},
      {"fragments_divide", fwd, "sm_80", "portable_forward", tile128()},
      {"fragments_divide", fwd, "sm_80", "portable_forward", tile128()},
      {"first_tile_that_fits",
       "bwd bf16 b=1 h=1 s=64 d=64",
       "sm_80",
       "portable_backward",
       tile128(),
       {.family = "portable_backward block_q=16"}},
      {"accumulators_leave_room", "bwd bf16 b=1 h=1 s=64 d=64 softcap=5", "sm_80", "portable_backward",
       tile128({{"warps", 8}, {"block_q", 64}, {"block_k", 64}})},
  };
  return list;
}

struct Refused : Scene {
  std::string_view why;
};

const std::vector<Refused>& refused_scenes() {
  static const std::vector<Refused> list = {
      {{"asked_for", fwd, "cpu-avx2", "cpu_decode", {}, {.family = "generic"}},
       "only 'generic' was asked for, and it does not match that"},
      {{"not_disabled", fwd, "cpu-avx2", "cpu_decode", {}, {.disabled = {"decode"}}},
       "remove it from REGARD_DISABLE"},
      {{"dtype_on_target", "fwd fp8 b=1 h=1 s=1 d=64", "sm_75", "portable_forward"},
       "sm_75 does not compute in fp8; it takes fp32, fp16"},
      {{"new_tokens_on_target", "fwd bf16 b=2 h=4 sq=1 sk=64 d=128 snew=1 kv=fp8", "sm_80",
        "portable_forward"},
       "sm_80 does not convert to fp8; keep the cache in the type of Q, or use kv=int8"},
      {{"cache_type_on_target", "append bf16 b=2 h=4 sk=64 d=128 snew=1 kv=fp8_fnuz", "sm_90a",
        "portable_append"},
       "sm_90a does not convert to fp8_fnuz"},
      {{"dtype_on_target", "fwd fp8_fnuz b=1 h=1 s=1 d=64", "sm_90a", "portable_forward"},
       "sm_90a does not compute in fp8_fnuz; it takes fp32, fp16, bf16, fp8, fp8_e5m2; cpu and hip targets "
       "compute in fp8_fnuz"},
      {{"takes_functions", "fwd bf16 b=2 h=4 s=64 d=64 keep=kv<=q", "cpu-avx2", "cpu_forward"},
       "it does not take keep yet; the generic kernel interprets functions"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=64 row_max bias=alibi", "sm_90a", "sm90_forward",
        tile128()},
       "it does not support row_max with a bias; portable_forward does"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=64 row_max bits", "sm_90a", "sm90_forward", tile128()},
       "it does not support row_max with bits or ranges; portable_forward does"},
      {{"smallest_tile", "fwd bf16 b=1 h=1 s=64 d=128 row_max", "sm_90a", "sm90_forward", tile192()},
       "its tile of 192 queries is for problems without row_max; use a smaller one"},
      {{"takes_functions", "fwd bf16 b=2 h=4 s=64 d=64 keep=kv<=q score=s*2.0", "sm_80", "portable_forward"},
       "it does not take score and keep yet; CPU targets have a generic kernel that interprets functions"},
      {{"reads_cache", "fwd bf16 b=1 h=1 s=64 d=64 kv=fp8", "sm_80", "portable_forward", tile128()},
       "it does not take kv=fp8 on sm_80; use kv=int8"},
      {{"few_query_rows", "fwd bf16 b=1 hq=32 hk=2 sq=5 sk=64 d=64", "sm_80", "portable_decode"},
       "80 query rows share a K/V head, above its 64; the forward kernels take any number"},
      {{"has_many_rows", "fwd bf16 b=1 hq=8 hk=2 sq=4 sk=64 d=64", "sm_80", "portable_forward", tile128()},
       "portable_decode is faster for up to 16 query rows that share a K/V head"},
      {{"supports_features", "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=64 batch_invariant", "sm_80",
        "portable_decode"},
       "it does not support batch_invariant, as its sums have another order than those of many rows"},
      {{"keys_fit_registers",
        "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=64",
        "sm_80",
        "portable_decode",
        {{"block_k", 128}, {"warps", 4}}},
       "its tile of 128 keys is for 8-bit K and V; use the one of 64"},
      {{"columns_are_vectors", "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=72 kv=int8 descale=tensor", "sm_80",
        "portable_decode"},
       "its threads read 16 numbers of K and 8 of V at once, which do not divide head dims of 72/72"},
      {{"pages_are_boxes", "fwd bf16 b=1 h=1 s=64 d=64 paged=16 left_padding", "sm_90a", "sm90_forward",
        tile128()},
       "left padding in pages"},
      {{"pages_are_boxes", "fwd bf16 b=1 h=1 s=64 d=64 paged=16 kv_layout=vectorized", "sm_90a",
        "sm90_forward", tile128()},
       "vectorized pages"},
      {{"pages_are_boxes", "fwd bf16 b=1 h=1 s=64 d=64 paged=7", "sm_90a", "sm90_forward", tile192()},
       "its tile of 192 queries is for problems without rows that threads copy"},
      {{"pages_are_boxes", "fwd fp8 b=1 h=1 s=64 d=64 paged=48 batch_invariant", "sm_90a", "sm90_forward",
        tile128()},
       "8-bit queries on a cache with batch_invariant"},
      {{"pages_are_boxes", "fwd fp8 b=1 h=1 s=64 d=64 paged=24", "sm_90a", "sm90_forward", tile128()},
       "8-bit keys and values in pages that are not a multiple of 16 rows"},
      {{"pages_are_boxes", "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent paged=8", "sm_90a", "sm90_latent",
        tile_latent()},
       "it takes only pages of a multiple of 16 rows, in boxes; portable_forward takes any"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=512 latent", "sm_90a", "sm90_latent", tile_latent()},
       "it is only for latent attention with d=576 and dv=512"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent paged=16 kv=int8 descale=tensor",
        "sm_90a", "sm90_latent", tile_latent()},
       "it does not support keys and values of a type other than Q's; portable_forward does"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent batch_invariant", "sm_90a",
        "sm90_latent", tile_latent()},
       "whatever the page size, and this kernel supports only some sizes; use portable_forward"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent paged=16 left_padding", "sm_90a",
        "sm90_latent", tile_latent()},
       "left padding in pages"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent bits", "sm_90a", "sm90_latent",
        tile_latent()},
       "it does not support bit masks; portable_forward does"},
      {{"kernel_takes_dtype", "fwd fp32 b=1 h=1 s=1 d=64", "sm_80", "portable_forward", tile128()},
       "it does not take fp32; it takes bf16, fp16"},
      {{"head_dims_fit", "fwd bf16 b=1 h=1 s=1 d=160", "sm_80", "portable_forward", tile128()},
       "head dims 160/160 are above its 128/128"},
      {{"head_dims_aligned", fwd, "sm_80", "portable_forward", tile128({{"d", 132}})}, "not multiples of 8"},
      {{"positions_fit", "fwd bf16 b=1 h=1 sq=1 sk=2147483648 d=64", "cpu-avx2", "cpu_generic_forward"},
       "positions have 32 bits and sk=2147483648 is too large"},
      {{"positions_fit", "fwd bf16 b=1 h=1 sq=1 sk=2147483648 d=64", "sm_80", "portable_forward", tile128()},
       "sk=2147483648 is too large"},
      {{"ragged_maps_fit", "fwd bf16 b=1 h=1 sq=1 sk=1073741825 d=64 lengths", "sm_90a", "sm90_forward",
        tile128()},
       "sequences have at most 1073741824 rows"},
      {{"positions_fit", "bwd bf16 b=1 h=1 sq=2147483648 sk=1 d=64", "cpu-avx2", "cpu_backward"},
       "sq=2147483648 is too large; sequences have at most 2147418112 rows"},
      {{"few_query_rows",
        "fwd bf16 b=1 hq=8 hk=1 sq=1 sk=64 d=64",
        "cpu-avx2",
        "cpu_decode",
        {{"d", 64}, {"dv", 64}, {"pack_gqa", 4}}},
       "8 query rows share a K/V head, above its 4"},
      {{"decode_without_dropout", "fwd bf16 b=1 h=1 s=1 d=64 dropout=0.1", "cpu-avx2", "cpu_decode"},
       "the forward kernel does"},
      {{"splits_allowed", "fwd bf16 b=1 h=1 s=64 d=64 splits=2", "cpu-avx2", "cpu_forward", tile128()},
       "splits=2 was asked for"},
      {{"splits_allowed", "fwd bf16 b=1 h=1 s=64 d=64 splits=1", "cpu-avx2", "cpu_decode", tile128()},
       "splits=1 was asked for"},
      {{"split_pays",
        "fwd bf16 b=8 h=8 s=2048 d=64",
        "cpu-avx2",
        "cpu_forward_split",
        tile128(),
        {.threads = 8}},
       "already keep 8 workers busy"},
      {{"split_pays",
        "fwd bf16 b=1 h=1 s=64 d=64",
        "cpu-avx2",
        "cpu_forward_split",
        tile128(),
        {.threads = 8}},
       "64 keys are too few"},
      {{"split_pays", "fwd bf16 b=33 hq=32 hk=8 sq=16 sk=8192 d=128", "sm_90a", "sm90_forward_split",
        tile128()},
       "264 blocks already keep 132 workers busy, so the keys are not split"},
      {{"splits_allowed", "fwd bf16 b=1 h=1 s=64 d=64 dropout=0.1 dropout_mask", "cpu-avx2",
        "cpu_forward_split", tile128()},
       "dropout mask"},
      {{"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64", "sm_90a", "sm90_forward", tile128()},
       "sums over up to 131072 keys would lose digits and can be made in 2 parts; splits=1 forces it"},
      {{"long_sums", "fwd fp32 b=1 h=1 sq=64 sk=8193 d=64", "sm_80", "portable_forward", tile128()},
       "can be made in 2 parts"},
      {{"reads_cache", "fwd fp32 b=1 h=1 s=64 d=64 kv=int8 descale=head", "sm_80", "portable_forward"},
       "give queries of bf16 or fp16"},
      {{"reads_cache", "fwd bf16 b=1 h=1 s=64 d=64 kv=fp8", "sm_80", "portable_forward"}, "use kv=int8"},
      {{"split_is_invariant", "fwd bf16 b=1 h=1 sq=1 sk=8192 d=64 batch_invariant", "cpu-avx2",
        "cpu_forward_split"},
       "must not decide"},
      {{"parts_are_invariant", "fwd bf16 b=1 h=1 sq=1 sk=4097 d=64 batch_invariant", "sm_80",
        "portable_forward", tile128()},
       "keys are split at the same places in every call"},
      {{"parts_are_invariant", "fwd bf16 b=1 h=1 sq=1 sk=4096 d=64 batch_invariant", "sm_80",
        "portable_forward_split", tile128()},
       "so few keys are not split in any call"},
      {{"packs_gqa", "fwd bf16 b=1 hq=4 hk=1 sq=1 sk=64 d=128 batch_invariant", "sm_90a", "sm90_forward",
        tile64()},
       "use a larger one"},
      {{"packed_decode_is_invariant", "fwd bf16 b=1 h=1 sq=1 sk=8192 d=64 batch_invariant varlen", "cpu-avx2",
        "cpu_decode"},
       "must not decide"},
      {{"combine_columns", "fwd bf16 b=1 h=1 s=1 d=576 dv=576", "sm_80", "portable_forward_split"},
       "no combine tile for bf16 and dv=576"},
      {{"latent_tile",
        "fwd bf16 b=1 h=1 s=64 d=576 dv=512",
        "sm_80",
        "portable_forward",
        {{"d", 576}, {"dv", 512}}},
       "its tile for head dim 576 has V in the columns of K; give latent, and no V"},
      {{"latent_tile",
        "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent kv=int8 descale=token",
        "sm_80",
        "portable_forward",
        {{"d", 576}, {"dv", 512}}},
       "no factors of each key; use descale=tensor or descale=head"},
      {{"latent_tile",
        "fwd bf16 b=1 h=1 s=64 d=576 dv=512 latent",
        "sm_80",
        "portable_forward",
        {{"d", 576}, {"dv", 512}, {"block_d", 64}}},
       "block_d=64 does not go with a tile whose V is read from whole rows of K"},
      {{"target_has_features", fwd, "sm_80", "sm90_forward", tile128()},
       "sm90_forward needs wgmma, which sm_80 does not have"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=64 dropout=0.1 dropout_mask", "sm_90a", "sm90_forward",
        tile128()},
       "it does not write the dropout mask; portable_forward does"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=64 dv=32 latent k_rope", "sm_90a", "sm90_forward",
        tile128()},
       "it does not support K in two tensors (k_rope); portable_forward does"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=64 softcap=1025", "sm_90a", "sm90_forward", tile128()},
       "it does not support a soft cap above 1024; portable_forward does"},
      {{"supports_features", "fwd fp8 out=bf16 b=1 h=1 s=64 d=64 bits", "sm_90a", "sm90_forward", tile128()},
       "it does not support bit masks with 8-bit types; portable_forward does"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=64 bits dropout=0.1 bias=alibi", "sm_90a",
        "sm90_forward", tile128()},
       "it does not support bits or ranges with dropout and a bias or soft cap; portable_forward does"},
      {{"supports_features", "fwd bf16 b=1 h=1 s=64 d=136 ranges softcap=5", "sm_90a", "sm90_forward",
        tile128()},
       "it does not support bits or ranges with a soft cap at head dims above 128; portable_forward "
       "does"},
      {{"supports_features", "fwd fp8 out=bf16 b=1 h=1 s=64 d=64 ranges", "sm_90a", "sm90_forward",
        tile128()},
       "it does not support row ranges with 8-bit types; portable_forward does"},
      {{"supports_features", "fwd fp8 out=fp32 b=1 h=1 s=64 d=64", "sm_90a", "sm90_forward", tile128()},
       "it does not support 8-bit or 32-bit output from fp8"},
      {{"supports_features", "fwd fp8 b=1 h=1 s=64 d=72", "sm_90a", "sm90_forward", tile128()},
       "it does not support rows that are not a multiple of 16 bytes"},
      {{"smallest_tile", "fwd fp8 out=bf16 b=1 h=1 s=64 d=128 softcap=5", "sm_90a", "sm90_forward",
        tile192()},
       "its tile of 192 queries is for problems without soft cap; use a smaller one"},
      {{"smallest_tile", fwd, "sm_90a", "sm90_forward_split", tile192()},
       "its tile of 192 queries is for problems without split keys; use a smaller one"},
      {{"smallest_tile", "fwd bf16 b=1 h=1 s=64 d=64", "sm_90a", "sm90_forward", tile128()},
       "its tile is for head dims up to 128/128; the one for 64/64 holds more keys or stages"},
      {{"clusters_share_keys", "fwd bf16 b=1 h=1 s=300 d=128 lengths", "sm_90a", "sm90_forward",
        tile128({{"cluster", 2}})},
       "sequences must fill their tensors and keys stay whole; use a tile without clusters"},
      {{"clusters_share_keys", "fwd fp8 out=bf16 b=1 h=1 s=300 d=128", "sm_90a", "sm90_forward",
        tile128({{"cluster", 2}})},
       "clusters do not transpose 8-bit V; use a tile without clusters"},
      {{"clusters_share_keys", "fwd bf16 b=1 h=1 s=300 d=128 bits", "sm_90a", "sm90_forward",
        tile128({{"cluster", 2}})},
       "the blocks of a cluster may see different tiles with bits or ranges; use a tile without clusters"},
      {{"bits_have_tiles", "fwd bf16 b=1 h=1 sq=64 sk=131073 d=128 bits", "sm_90a", "sm90_forward",
        tile128()},
       "with bits its tile supports sk up to 131072; use portable_forward"},
      {{"rows_for_clusters", "fwd bf16 b=1 h=1 sq=128 sk=300 d=128", "sm_90a", "sm90_forward",
        tile128({{"cluster", 2}})},
       "query rows for two blocks; use a tile without clusters"},
      {{"packs_gqa", "fwd bf16 b=1 hq=4 hk=1 sq=20 sk=64 d=128", "sm_90a", "sm90_forward", tile192()},
       "is for problems without few query rows of many heads"},
      {{"packs_gqa", "fwd bf16 b=1 hq=4 hk=1 sq=16 sk=64 d=128", "sm_90a", "sm90_forward", tile128()},
       "its tile of 128 queries is for more rows than the heads of a K/V head have; use one of 64"},
      {{"packs_gqa", "fwd bf16 b=1 hq=4 hk=1 sq=17 sk=64 d=128", "sm_90a", "sm90_forward", tile64()},
       "is for all rows of several heads of a K/V head, without batch_invariant; use a larger one"},
      {{"packs_gqa", "fwd bf16 b=1 h=4 sq=1 sk=64 d=128", "sm_90a", "sm90_forward", tile64()},
       "use a larger one"},
      {{"packs_gqa", "fwd fp8 b=1 hq=4 hk=1 sq=16 sk=64 d=64", "sm_90a", "sm90_forward", tile192()},
       "is for problems without few query rows of many heads"},
      {{"first_tile_that_fits", "bwd bf16 b=1 h=1 s=64 d=64", "sm_80", "portable_backward", tile128()},
       "the tile of head dims 64/64 before it in the table takes them"},
      {{"accumulators_leave_room", "bwd bf16 b=1 h=1 s=64 d=64 softcap=5", "sm_80", "portable_backward",
        tile128({{"warps", 4}, {"block_q", 128}, {"block_k", 128}})},
       "and a soft cap leaves registers for 224"},
      {{"registers_for_features", "bwd bf16 b=1 h=1 s=64 d=64 softcap=5", "sm_90a", "sm90_backward",
        tile128()},
       "its tile of 128 queries is for problems without soft cap"},
      {{"forward_tile_sizes", fwd, "cpu-avx2", "cpu_forward", {{"block_q", 63}, {"block_k", 192}}},
       "block_q=63 of its tile (line 0 of targets/cpu-avx2.toml) must be a multiple of 64"},
      {{"forward_tile_sizes", fwd, "cpu-avx2", "cpu_forward", {{"block_q", 64}, {"block_k", 33}}},
       "block_k=33 of its tile (line 0 of targets/cpu-avx2.toml) must be a multiple of 48"},
      {{"forward_tile_sizes",
        "fwd fp32 b=1 h=1 s=8 d=64 bits",
        "cpu-avx2",
        "cpu_forward",
        {{"block_q", 64}, {"block_k", 48}}},
       "must be a multiple of 96"},
      {{"forward_tile_sizes", fwd, "cpu-amx", "cpu_forward", {{"block_q", 64}, {"block_k", 64}}},
       "must be a multiple of 64, 128 or more"},
      {{"decode_tile_sizes", fwd, "cpu-avx2", "cpu_decode", {{"block_k", 64}, {"pack_gqa", 3}}},
       "pack_gqa=3 of its tile (line 0 of targets/cpu-avx2.toml) must be a power of two from 1 to 8"},
      {{"decode_tile_sizes", fwd, "cpu-avx2", "cpu_decode", {{"block_k", 192}, {"pack_gqa", 1}}},
       "must be a power of two from 8 to 2048"},
      {{"backward_tile_sizes", bwd, "cpu-amx", "cpu_backward", {{"block_q", 128}, {"block_k", 256}}},
       "block_q=128 of its tile (line 0 of targets/cpu-amx.toml) must be 64"},
      {{"launch_fits", fwd, "sm_80", "portable_forward", tile128({{"warps", 64}})},
       "2048 threads per block are above the 1024"},
      {{"two_warps_share_rows", fwd, "sm_90", "portable_forward", tile128({{"warps_across", 4}})},
       "warps_across=4 does not go with its tile"},
      {{"two_warps_share_rows", fwd, "sm_90", "portable_forward",
        tile128({{"warps", 3}, {"warps_across", 2}})},
       "of 2, 4, 8 or 16"},
      {{"two_warps_share_rows", fwd, "sm_90", "portable_forward",
        tile128({{"block_k", 96}, {"warps_across", 2}})},
       "32 or 64 keys or a multiple of 128"},
      {{"two_warps_share_rows", fwd, "sm_90", "portable_forward",
        tile128({{"block_k", 192}, {"warps_across", 2}})},
       "32 or 64 keys or a multiple of 128"},
      {{"two_warps_share_rows", "fwd fp32 b=1 h=1 s=64 d=64", "sm_90", "portable_forward",
        tile128({{"warps_across", 2}})},
       "operands of 16 bits"},
      {{"shared_memory_fits", fwd, "sm_80", "portable_forward",
        tile128({{"block_q", 512}, {"block_d", 128}})},
       "bytes of shared memory, sm_80 has 166912"},
      {{"shared_memory_fits", fwd, "sm_120", "portable_forward", tile128({{"stages", 2}})},
       "use a smaller tile"},
      // The sum of the kernel's static shared memory and that of the launch counts.
      {{"shared_memory_fits", fwd, "sm_90a", "sm90_forward", tile128({{"block_k", 193}, {"stages", 2}})},
       "needs 233472 bytes of shared memory, sm_90a has 232448"},
      {{"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=64 bits", "sm_80", "portable_forward",
        tile128({{"d", 64}, {"dv", 64}})},
       "each thread of its tile has 128 scores, and a mask of bits leaves registers for 64; use a smaller "
       "block_k"},
      {{"accumulators_leave_room", biased, "sm_80", "portable_forward", tile128({{"block_k", 64}})},
       "each thread of its tile has 192 accumulators, and a bias leaves registers for 160; use a smaller "
       "block_q"},
      {{"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=128 bias=alibi dropout=0.1", "sm_80",
        "portable_forward", tile128({{"block_k", 64}})},
       "192 accumulators, and a bias with dropout leaves registers for 160"},
      {{"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=64 bias=bh dropout=0.1", "sm_75",
        "portable_forward", tile128({{"block_k", 64}, {"d", 64}, {"dv", 64}})},
       "a bias with dropout leaves registers for 96"},
      {{"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=192 dv=128 mask=causal", "sm_80",
        "portable_forward", tile128({{"block_k", 64}, {"d", 192}})},
       "192 accumulators, and a mask at a head dim above 128 leaves registers for 160"},
      {{"fragments_divide", fwd, "sm_80", "portable_forward", tile128({{"block_d", 48}})},
       "steps of block_d=48 do not divide the head dim 128"},
      {{"fragments_divide", fwd, "sm_80", "portable_forward", tile128({{"block_q", 24}})},
       "no bf16 matrix instruction of sm_80 divides a tile of 24 queries"},
  };
  return list;
}

TEST(Rules, Accept) {
  for (const Scene& scene : accepted()) {
    const auto refusal = ask(scene);
    EXPECT_FALSE(refusal) << scene.rule << " of " << scene.text << " on " << scene.target << ": " << *refusal;
  }
}

TEST(Rules, RefuseWithAReason) {
  for (const Refused& scene : refused_scenes()) {
    const auto refusal = ask(scene);
    ASSERT_TRUE(refusal) << scene.rule << " accepted " << scene.text << " on " << scene.target;
    EXPECT_THAT(*refusal, HasSubstr(std::string(scene.why))) << scene.rule;
  }
}

TEST(Rules, AreAllTestedBothWays) {
  std::set<std::string_view> accept, refuse;
  for (const Scene& scene : accepted()) accept.insert(scene.rule);
  for (const Refused& scene : refused_scenes()) refuse.insert(scene.rule);
  const auto expect_tested = [&](std::span<const Rule> rules) {
    for (const Rule& rule : rules) {
      EXPECT_TRUE(accept.contains(rule.name)) << rule.name;
      EXPECT_TRUE(refuse.contains(rule.name)) << rule.name;
    }
  };
  expect_tested(general_rules());
  for (const Kernel* kernel : kernels()) expect_tested(kernel->rules());
}

/// The problem with fewer and more features: those that take registers are left to smaller tiles.
std::vector<Problem> with_less_and_more(Problem problem) {
  std::vector<Problem> problems = {problem};
  if (problem.pass != Pass::bwd) {
    for (const bool latent : {false, true}) {
      Problem changed = problem;
      changed.latent = latent;
      if (!latent) changed.kv = DType::int8, changed.descale = Descale::tensor;
      problems.push_back(changed);
    }
    return problems;
  }
  problem.softcap = 30;
  problems.push_back(problem);
  problem.bias = Bias::batch_head;
  problem.dbias = true;
  problems.push_back(problem);
  return problems;
}

/// A table whose tiles can never be used is a mistake in the table.
TEST(Rules, EveryTileOfEveryTableServesSomething) {
  const Result<std::vector<Target>>& all = targets();
  ASSERT_TRUE(all);
  for (const Target& target : *all) {
    std::map<int, bool> served;  // by line
    for (const Target::Tile& tile : target.tiles) {
      if (tile.algorithm.kernel == "portable_combine") continue;
      bool& of_line = served[tile.line];
      for (const Recipe& recipe : recipes()) {
        if (recipe.main->name != tile.algorithm.kernel || of_line) continue;
        Problem problem;
        problem.pass = recipe.pass;
        problem.dtype = tile.dtypes[0];
        for_each_following_type(
            problem, [&problem](Field field, DType& type) { type = default_type(field, problem.dtype); });
        problem.d = tile.max_d;
        problem.dv = tile.max_dv;
        problem.sq = problem.sk = 64;
        const Candidate candidate{&recipe, &tile};
        for (const Problem& p : with_less_and_more(problem)) {
          const auto refused = first_refusal({p, target, candidate, {}}, /*of_signature=*/true);
          of_line |= !refused || refused->rule == "supports_features";
        }
      }
    }
    for (const auto& [line, good] : served) EXPECT_TRUE(good) << target.name << ".toml:" << line;
  }
}

}  // namespace
}  // namespace regard
