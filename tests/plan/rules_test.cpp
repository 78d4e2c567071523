// Every rule accepts something and refuses something. The tiles are made by hand where no target's table has
// the mistake.
#include "plan/rules.h"

#include <gmock/gmock.h>

#include <set>

namespace regard {
namespace {

using testing::HasSubstr;

/// A question with everything that it refers to.
struct Scene {
  std::string_view rule, text, target, recipe;
  std::string pipeline;
  std::map<std::string, std::int64_t> tile;  ///< d, dv and Algorithm fields; empty: no tile
  PlanOptions options = {};
};

std::optional<std::string> ask(const Scene& scene) {
  Problem problem = *parse(scene.text);
  if (problem.out == DType::bf16 && problem.dtype != DType::bf16) problem.out = default_out(problem.dtype);
  const Target& target = **find_target(scene.target);
  const Recipe* recipe = nullptr;
  for (const Recipe& one : recipes()) {
    if (one.name == scene.recipe && one.pass == problem.pass) recipe = &one;
  }
  if (recipe == nullptr) {
    for (const Recipe& one : recipes()) {
      if (one.name == scene.recipe) recipe = &one;
    }
  }
  Target::Tile tile;
  tile.kernel = recipe->kernel;
  tile.dtypes = {DType::bf16, DType::fp16};
  for (const auto& [name, value] : scene.tile) {
    if (name == "d")
      tile.max_d = value;
    else if (name == "dv")
      tile.max_dv = value;
    else
      tile.values[name] = value;
  }
  tile.pipeline = scene.pipeline;
  const Candidate candidate{recipe, scene.tile.empty() ? nullptr : &tile};
  for (const Rule& rule : rules()) {
    if (rule.name == scene.rule) return rule.check({problem, target, candidate, scene.options});
  }
  ADD_FAILURE() << "no rule " << scene.rule;
  return {};
}

using Tile = std::map<std::string, std::int64_t>;

/// A tile that all rules accept on gfx942.
Tile tile128(Tile changes = {}) {
  Tile tile = {{"d", 128},      {"dv", 128},       {"block_q", 128}, {"block_k", 128},
               {"block_d", 32}, {"block_dv", 128}, {"step_k", 32},   {"warps", 4}};
  for (const auto& [name, value] : changes) tile[name] = value;
  return tile;
}

/// A tile of Hopper's for few rows: one warpgroup multiplies.
Tile tile64() {
  return tile128({{"block_q", 64}, {"block_k", 64}, {"warps", 8}});
}

/// One of three warpgroups.
Tile tile192(Tile changes = {}) {
  Tile tile = tile128({{"block_q", 192}, {"block_k", 80}, {"warps", 16}});
  for (const auto& [name, value] : changes) tile[name] = value;
  return tile;
}

Tile prefill(Tile changes = {}) {
  Tile tile = tile128({{"block_k", 32}, {"warps", 8}});
  for (const auto& [name, value] : changes) tile[name] = value;
  return tile;
}

constexpr std::string_view fwd = "fwd bf16 b=2 h=4 s=1024 d=128";
constexpr std::string_view biased = "fwd bf16 b=2 h=4 s=1024 d=128 bias=bh";
constexpr std::string_view bwd = "bwd bf16 b=2 h=4 s=1024 d=128";
constexpr std::string_view paged = "fwd bf16 b=2 h=4 s=1024 d=128 varlen paged=16";

const std::vector<Scene>& accepted() {
  static const std::vector<Scene> list = {
      {"family_matches", fwd, "gfx942", "forward"},
      {"family_matches", fwd, "gfx942", "decode"},
      {"asked_for", fwd, "gfx942", "forward", "", {}, {.family = "forward"}},
      {"not_disabled", fwd, "gfx942", "forward", "", {}, {.disabled = {"decode"}}},
      {"dtype_on_target", fwd, "gfx942", "forward"},
      {"backward_dtype", bwd, "gfx942", "backward"},
      {"dtypes_go_together", "fwd fp8 out=bf16 b=1 h=1 s=1 d=128", "gfx942", "forward"},
      {"softcap_without_bias", "fwd bf16 b=1 h=1 s=1 d=64 softcap=30", "gfx942", "forward"},
      {"kernel_takes_dtype", fwd, "gfx942", "forward", "qr", tile128()},
      {"head_dims_fit", fwd, "gfx942", "forward", "qr", tile128()},
      {"head_dims_aligned", fwd, "gfx942", "forward", "qr", tile128()},
      {"wide_heads_are_plain", "fwd bf16 b=1 h=1 s=1 d=192 dv=128", "gfx942", "forward", "qr",
       tile128({{"d", 192}})},
      {"wide_heads_are_plain", "fwd bf16 b=1 h=1 s=1 d=192 bias=bh", "gfx942", "forward", "qr",
       tile128({{"d", 192}, {"dv", 192}})},
      {"cpu_tile_sizes", fwd, "cpu-avx2", "forward", "", {{"block_q", 64}, {"block_k", 48}}},
      {"cpu_tile_sizes", fwd, "cpu-avx2", "decode", "", {{"block_k", 64}, {"group", 4}}},
      {"cpu_tile_sizes", bwd, "cpu-avx2", "backward", "", {{"block_q", 16}, {"block_k", 48}}},
      {"cpu_tile_sizes", bwd, "cpu-amx", "backward", "", {{"block_q", 64}, {"block_k", 32}}},
      {"positions_fit", "fwd bf16 b=1 h=1 sq=1 sk=2147418112 d=64", "cpu-avx2", "forward"},
      {"positions_fit", "fwd bf16 b=1 h=1 sq=1 sk=1073741824 d=64 lengths", "sm_90a", "forward", "wgmma_tma",
       tile128()},
      {"few_query_rows",
       "fwd bf16 b=1 hq=8 hk=2 sq=1 sk=64 d=64",
       "cpu-avx2",
       "decode",
       "",
       {{"d", 64}, {"dv", 64}, {"group", 4}}},
      {"decode_without_dropout", fwd, "cpu-avx2", "decode"},
      {"splits_allowed",
       "fwd bf16 b=1 h=1 sq=64 sk=8192 d=64",
       "cpu-avx2",
       "forward_split",
       "",
       tile128(),
       {.threads = 8}},
      {"splits_allowed", "fwd bf16 b=8 h=8 s=64 d=64 splits=3", "cpu-avx2", "forward_split", "", tile128()},
      {"splits_allowed", "fwd bf16 b=32 hq=32 hk=8 sq=16 sk=8192 d=128", "sm_90a", "forward_split",
       "wgmma_tma", tile128()},
      {"splits_allowed", "fwd bf16 b=64 h=64 sq=64 sk=65537 d=64", "sm_80", "forward_split", "mma_async",
       tile128()},
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=65536 d=64", "sm_90a", "forward", "wgmma_tma", tile128()},
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64 splits=1", "sm_90a", "forward", "wgmma_tma",
       tile128()},
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64 mask=window:1024,0", "sm_90a", "forward",
       "wgmma_tma", tile128()},
      // In one part, as two would take more memory than there may be.
      {"long_sums", "fwd bf16 b=1 h=8 s=1048576 d=128", "sm_90a", "forward", "wgmma_tma", tile128()},
      // What cannot be split is done as it is.
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64 batch_invariant", "sm_90a", "forward", "wgmma_tma",
       tile128()},
      {"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64 dropout=0.1 dropout_mask", "sm_80", "forward",
       "mma_async", tile128()},
      {"long_sums",
       "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64",
       "sm_90a",
       "forward",
       "wgmma_tma",
       tile128(),
       {.disabled = {"split_kv"}}},
      {"split_is_invariant", "fwd bf16 b=1 h=1 sq=1 sk=8192 d=64 batch_invariant", "cpu-avx2", "decode"},
      {"paged_cache", paged, "gfx942", "batch_prefill"},
      {"batch_prefill_inputs", paged, "gfx942", "batch_prefill"},
      {"append_is_dense", "append bf16 b=1 h=1 sq=0 sk=64 snew=1 d=64", "gfx942", "append_kv"},
      {"append_has_a_tile", "fwd bf16 b=1 h=1 sq=1 sk=64 snew=1 d=64", "gfx942", "append_decode"},
      {"family_matches", "fwd bf16 b=1 h=1 sq=1 sk=64 snew=1 d=64", "cpu-avx2", "append_decode"},
      {"splits_allowed", "fwd bf16 b=1 h=1 sq=1 sk=64 d=64 paged=16 splits=1", "cpu-avx2", "paged"},
      {"combine_columns", fwd, "gfx942", "decode"},
      {"pipeline_on_target", fwd, "gfx942", "forward", "qr_async", tile128()},
      {"pipeline_has_features", fwd, "gfx950", "forward", "qr_async_trload", tile128()},
      {"pipeline_has_features", fwd, "sm_90a", "forward", "wgmma_tma", tile128()},
      {"pipeline_fits_family", fwd, "gfx942", "forward", "qs", tile128()},
      {"hopper_forward", fwd, "sm_90a", "forward", "wgmma_tma", tile128()},
      {"hopper_forward", "fwd bf16 b=1 h=1 s=64 d=64 softcap=5 dropout=0.1 bias=alibi", "sm_90a", "forward",
       "mma_async", tile128()},
      {"hopper_forward", "fwd fp8 out=fp16 b=1 h=1 s=64 d=128 descale=head", "sm_90a", "forward", "wgmma_tma",
       tile128()},
      {"hopper_tile", "fwd bf16 b=1 h=1 s=64 d=128 mask=causal", "sm_90a", "forward", "wgmma_tma", tile192()},
      {"hopper_tile", fwd, "sm_90a", "forward_split", "wgmma_tma", tile128()},
      {"hopper_tile", "fwd bf16 b=1 h=1 s=64 d=128 softcap=5", "sm_90a", "forward", "wgmma_tma", tile128()},
      {"hopper_tile", "fwd fp8 out=bf16 b=1 h=1 s=64 d=128 softcap=5 mask=causal", "sm_90a", "forward",
       "wgmma_tma", tile128()},
      {"hopper_cluster", "fwd bf16 b=1 h=1 s=300 d=128", "sm_90a", "forward", "wgmma_tma",
       tile128({{"cluster", 2}})},
      {"hopper_cluster", "fwd bf16 b=1 h=1 s=300 d=128 softcap=5", "sm_90a", "forward", "wgmma_tma",
       tile128({{"cluster", 2}})},
      {"hopper_cluster_shape", "fwd bf16 b=1 h=1 s=300 d=128", "sm_90a", "forward", "wgmma_tma",
       tile128({{"cluster", 2}})},
      {"hopper_packing", "fwd bf16 b=1 hq=4 hk=1 sq=20 sk=64 d=64", "sm_90a", "forward", "wgmma_tma",
       tile128()},
      {"hopper_packing", "fwd bf16 b=1 hq=4 hk=1 sq=16 sk=64 d=64", "sm_90a", "forward", "wgmma_tma",
       tile64()},
      {"hopper_packing", "fwd fp8 out=bf16 b=1 hq=4 hk=1 sq=16 sk=64 d=64", "sm_90a", "forward", "wgmma_tma",
       tile128()},
      {"hopper_packing", "fwd fp8 out=bf16 b=1 hq=4 hk=1 sq=100 sk=64 d=64", "sm_90a", "forward", "wgmma_tma",
       tile192()},
      {"pipeline_fits_family", fwd, "gfx942", "decode", "qr_warp_shuffle", tile128()},
      {"pipeline_fits_family", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11", prefill()},
      {"trload_head_dims", fwd, "gfx950", "forward", "qr_async_trload", tile128({{"d", 64}, {"dv", 64}})},
      {"v3_tile", fwd, "gfx950", "forward", "qr_async_trload_v3", tile128({{"block_q", 256}})},
      {"v3_tile", fwd, "gfx950", "forward", "qr_async_trload", tile128({{"block_k", 64}})},
      {"batch_prefill_gfx11", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11", prefill()},
      {"tile_is_complete", fwd, "gfx942", "forward", "qr", tile128()},
      {"launch_fits", fwd, "gfx942", "forward", "qr", tile128()},
      {"two_warps_share_rows", fwd, "sm_90", "forward", "mma_async", tile128()},
      {"two_warps_share_rows", fwd, "sm_90", "forward", "mma_async",
       tile128({{"block_k", 64}, {"warps_across", 2}})},
      {"shared_memory_fits", fwd, "gfx942", "forward", "qr", tile128()},
      {"shared_memory_fits", fwd, "gfx950", "forward", "qr_async", tile128({{"block_d", 128}})},
      {"shared_memory_fits", fwd, "sm_90a", "forward", "wgmma_tma", tile192({{"stages", 2}})},
      {"accumulators_leave_room", fwd, "sm_80", "forward", "mma_async", tile128()},
      {"accumulators_leave_room", biased, "sm_80", "forward", "mma_async", tile128({{"block_q", 64}})},
      {"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=128 bits dropout=0.1", "sm_80", "forward",
       "mma_async", tile128({{"block_k", 64}})},
      {"steps_divide", fwd, "gfx942", "forward", "qr", tile128()},
      {"fragments_divide", fwd, "gfx942", "forward", "qr", tile128()},
      {"wide_qr_fragments", fwd, "gfx942", "forward", "qr", tile128({{"d", 256}, {"dv", 256}})},
      {"cdna_tile_shape", fwd, "gfx942", "forward", "qr_async", tile128()},
      {"cdna_tile_shape", fwd, "gfx942", "forward", "qr", tile128({{"d", 64}, {"dv", 64}, {"block_k", 64}})},
      {"async_loads_are_even", fwd, "gfx942", "forward", "qr_async", tile128()},
      {"kernel_exists", fwd, "cpu-avx2", "forward", "", tile128()},
  };
  return list;
}

struct Refused : Scene {
  std::string_view why;
};

const std::vector<Refused>& refused_scenes() {
  static const std::vector<Refused> list = {
      {{"family_matches", bwd, "gfx942", "forward"}, "it solves forward problems, this one is backward"},
      {{"asked_for", fwd, "gfx942", "decode", "", {}, {.family = "generic"}},
       "only 'generic' was asked for, and it does not go by that"},
      {{"not_disabled", fwd, "gfx942", "decode", "", {}, {.disabled = {"decode"}}},
       "take it out of REGARD_DISABLE"},
      {{"dtype_on_target", "fwd fp8 b=1 h=1 s=1 d=64", "gfx90a", "forward"},
       "gfx90a does not compute in fp8; it takes fp16, bf16, fp32"},
      {{"backward_dtype", "bwd fp8 b=1 h=1 s=1 d=64", "gfx942", "backward"}, "use bf16, fp16 or fp32"},
      {{"dtypes_go_together", "fwd bf16 out=fp16 b=1 h=1 s=1 d=64", "gfx942", "forward"},
       "bf16 inputs do not give fp16 output"},
      {{"softcap_without_bias", "fwd bf16 b=1 h=1 s=1 d=64 softcap=30 bias=bh", "gfx942", "forward"},
       "use one of the two"},
      {{"kernel_takes_dtype", "fwd fp32 b=1 h=1 s=1 d=64", "gfx942", "forward", "qr", tile128()},
       "it does not take fp32; it takes bf16, fp16"},
      {{"head_dims_fit", "fwd bf16 b=1 h=1 s=1 d=160", "gfx942", "forward", "qr", tile128()},
       "head dims 160/160 are above its 128/128"},
      {{"head_dims_aligned", fwd, "gfx942", "forward", "qr", tile128({{"d", 132}})}, "not multiples of 8"},
      {{"wide_heads_are_plain", "fwd bf16 b=1 h=1 s=1 d=192 dv=128 bias=bh", "gfx942", "forward", "qr",
        tile128({{"d", 192}})},
       "neither bias nor dropout"},
      {{"positions_fit", "fwd bf16 b=1 h=1 sq=1 sk=2147483648 d=64", "cpu-avx2", "generic"},
       "positions have 32 bits and sk=2147483648 is too large"},
      {{"positions_fit", "fwd bf16 b=1 h=1 sq=1 sk=2147483648 d=64", "sm_80", "forward", "mma_async",
        tile128()},
       "sk=2147483648 is too large"},
      {{"positions_fit", "fwd bf16 b=1 h=1 sq=1 sk=1073741825 d=64 lengths", "sm_90a", "forward", "wgmma_tma",
        tile128()},
       "sequences have at most 1073741824 rows"},
      {{"positions_fit", "bwd bf16 b=1 h=1 sq=2147483648 sk=1 d=64", "cpu-avx2", "backward"},
       "sq=2147483648 is too large; sequences have at most 2147418112 rows"},
      {{"few_query_rows",
        "fwd bf16 b=1 hq=8 hk=1 sq=1 sk=64 d=64",
        "cpu-avx2",
        "decode",
        "",
        {{"d", 64}, {"dv", 64}, {"group", 4}}},
       "8 query rows share a K/V head, above its 4"},
      {{"decode_without_dropout", "fwd bf16 b=1 h=1 s=1 d=64 dropout=0.1", "cpu-avx2", "decode"},
       "the forward kernel does"},
      {{"splits_allowed", "fwd bf16 b=1 h=1 s=64 d=64 splits=2", "cpu-avx2", "forward", "", tile128()},
       "splits=2 was asked for"},
      {{"splits_allowed", "fwd bf16 b=1 h=1 s=64 d=64 splits=1", "cpu-avx2", "decode", "", tile128()},
       "splits=1 was asked for"},
      {{"splits_allowed",
        "fwd bf16 b=8 h=8 s=2048 d=64",
        "cpu-avx2",
        "forward_split",
        "",
        tile128(),
        {.threads = 8}},
       "keep 8 workers busy"},
      {{"splits_allowed",
        "fwd bf16 b=1 h=1 s=64 d=64",
        "cpu-avx2",
        "forward_split",
        "",
        tile128(),
        {.threads = 8}},
       "64 keys are too few"},
      {{"splits_allowed", "fwd bf16 b=33 hq=32 hk=8 sq=16 sk=8192 d=128", "sm_90a", "forward_split",
        "wgmma_tma", tile128()},
       "264 blocks keep 132 workers busy"},
      {{"splits_allowed", "fwd bf16 b=1 h=1 s=64 d=64 dropout=0.1 dropout_mask", "cpu-avx2", "forward_split",
        "", tile128()},
       "dropout mask"},
      {{"long_sums", "fwd bf16 b=1 h=1 sq=64 sk=131072 d=64", "sm_90a", "forward", "wgmma_tma", tile128()},
       "sums over up to 131072 keys would lose digits and can be made in 2 parts; splits=1 forces it"},
      {{"long_sums", "fwd fp32 b=1 h=1 sq=64 sk=8193 d=64", "sm_80", "forward", "mma_async", tile128()},
       "can be made in 2 parts"},
      {{"split_is_invariant", "fwd bf16 b=1 h=1 sq=1 sk=8192 d=64 batch_invariant", "cpu-avx2",
        "forward_split"},
       "must not decide"},
      {{"split_is_invariant", "fwd bf16 b=1 h=1 sq=1 sk=8192 d=64 batch_invariant varlen", "cpu-avx2",
        "decode"},
       "must not decide"},
      {{"paged_cache", fwd, "gfx942", "paged"}, "such as paged=16"},
      {{"paged_cache", "fwd bf16 b=1 h=1 s=1 d=64 paged=16 dropout=0.1", "gfx942", "paged"},
       "neither an elementwise bias nor dropout"},
      {{"batch_prefill_inputs", "fwd bf16 b=1 h=1 s=1 d=64 paged=16", "gfx942", "batch_prefill"},
       "add varlen"},
      {{"batch_prefill_inputs", "fwd bf16 b=1 h=1 s=1 d=64 paged=24 varlen", "gfx942", "batch_prefill"},
       "not a power of two"},
      {{"batch_prefill_inputs", "fwd bf16 b=1 h=1 s=1 d=64 paged=64 varlen", "gfx942", "batch_prefill"},
       "it has them for 1, 16, 1024"},
      {{"append_has_a_tile", "fwd bf16 b=1 h=1 sq=1 sk=64 snew=1 d=512", "gfx942", "append_decode"},
       "gfx942 has no append_kv tile for bf16 with head dims 512/512"},
      {{"family_matches", fwd, "cpu-avx2", "append_decode"}, "this problem has none"},
      {{"family_matches", "fwd bf16 b=1 h=1 sq=1 sk=64 snew=1 d=64", "cpu-avx2", "decode"},
       "it writes no new tokens, and this problem has some"},
      {{"splits_allowed", "fwd bf16 b=1 h=1 s=1 d=64 varlen paged=16 splits=2", "gfx942", "batch_prefill"},
       "it does not split the keys"},
      {{"append_is_dense", "append bf16 b=1 h=1 sq=0 sk=64 snew=1 d=64 varlen", "gfx942", "append_kv"},
       "leave varlen away"},
      {{"combine_columns", "fwd bf16 b=1 h=1 s=1 d=512", "gfx942", "decode"},
       "no combine tile for bf16 and dv=512"},
      {{"pipeline_on_target", fwd, "gfx1100", "forward", "qr_async", tile128()},
       "gfx1100 has no pipeline qr_async; it has qr,"},
      {{"pipeline_has_features", fwd, "gfx942", "forward", "qr_async_trload", tile128()},
       "needs trload, which gfx942 does not have"},
      {{"pipeline_has_features", fwd, "gfx942", "forward", "qr_async_trload_v3", tile128()}, "needs trload"},
      {{"hopper_forward", "fwd bf16 b=1 h=1 s=64 d=64 dropout=0.1", "sm_90a", "forward", "wgmma_tma",
        tile128()},
       "the Hopper kernel has no dropout; the portable one (mma_async) has"},
      {{"hopper_forward", "fwd bf16 b=1 h=1 s=64 d=64 softcap=1025", "sm_90a", "forward", "wgmma_tma",
        tile128()},
       "the Hopper kernel has no soft cap above 1024; the portable one (mma_async) has"},
      {{"hopper_forward", "fwd fp8 out=fp32 b=1 h=1 s=64 d=64", "sm_90a", "forward", "wgmma_tma", tile128()},
       "no output of 8 or 32 bits from fp8"},
      {{"hopper_forward", "fwd fp8 b=1 h=1 s=64 d=72", "sm_90a", "forward", "wgmma_tma", tile128()},
       "no rows that are no multiple of 16 bytes"},
      {{"hopper_tile", "fwd fp8 out=bf16 b=1 h=1 s=64 d=128 softcap=5", "sm_90a", "forward", "wgmma_tma",
        tile192()},
       "its tile of 192 queries is for problems without soft cap; use a smaller one"},
      {{"hopper_tile", fwd, "sm_90a", "forward_split", "wgmma_tma", tile192()},
       "its tile of 192 queries is for problems without split keys; use a smaller one"},
      {{"hopper_tile", "fwd bf16 b=1 h=1 s=64 d=64", "sm_90a", "forward", "wgmma_tma", tile128()},
       "its tile is for head dims up to 128/128; the one for 64/64 holds more keys or stages"},
      {{"hopper_cluster", "fwd bf16 b=1 h=1 s=300 d=128 lengths", "sm_90a", "forward", "wgmma_tma",
        tile128({{"cluster", 2}})},
       "sequences must fill their tensors and keys stay whole; use a tile without clusters"},
      {{"hopper_cluster", "fwd fp8 out=bf16 b=1 h=1 s=300 d=128", "sm_90a", "forward", "wgmma_tma",
        tile128({{"cluster", 2}})},
       "clusters do not transpose 8-bit V; use a tile without clusters"},
      {{"hopper_cluster_shape", "fwd bf16 b=1 h=1 sq=128 sk=300 d=128", "sm_90a", "forward", "wgmma_tma",
        tile128({{"cluster", 2}})},
       "query rows for two blocks; use a tile without clusters"},
      {{"hopper_packing", "fwd bf16 b=1 hq=4 hk=1 sq=20 sk=64 d=128", "sm_90a", "forward", "wgmma_tma",
        tile192()},
       "is for problems without few query rows of many heads"},
      {{"hopper_packing", "fwd bf16 b=1 hq=4 hk=1 sq=16 sk=64 d=128", "sm_90a", "forward", "wgmma_tma",
        tile128()},
       "its tile of 128 queries is for more rows than the heads of a K/V head have; use one of 64"},
      {{"hopper_packing", "fwd bf16 b=1 hq=4 hk=1 sq=17 sk=64 d=128", "sm_90a", "forward", "wgmma_tma",
        tile64()},
       "is for all rows of several heads of a K/V head, of sequences that are not packed and without "
       "batch_invariant; use a larger one"},
      {{"hopper_packing", "fwd bf16 b=1 h=4 sq=1 sk=64 d=128", "sm_90a", "forward", "wgmma_tma", tile64()},
       "use a larger one"},
      {{"hopper_packing", "fwd fp8 b=1 hq=4 hk=1 sq=16 sk=64 d=64", "sm_90a", "forward", "wgmma_tma",
        tile192()},
       "is for problems without few query rows of many heads"},
      {{"pipeline_fits_family", fwd, "gfx1100", "forward", "batch_prefill_gfx11", prefill()},
       "does not serve forward"},
      {{"pipeline_fits_family", fwd, "gfx942", "decode", "qr_async", tile128()}, "use qr or qr_warp_shuffle"},
      {{"pipeline_fits_family", "fwd bf16 b=1 h=1 s=1 d=64 paged=16", "gfx942", "paged", "qr", tile128()},
       "use qr_paged"},
      {{"pipeline_fits_family", "append bf16 b=1 h=1 sq=0 sk=64 snew=1 d=64", "gfx942", "append_kv", "qr",
        tile128()},
       "use append"},
      {{"pipeline_fits_family", paged, "gfx942", "batch_prefill", "qr", tile128()},
       "use qr_async or batch_prefill_gfx11"},
      {{"pipeline_fits_family", paged, "gfx1100", "batch_prefill", "qr_async", tile128()},
       "is pipeline batch_prefill_gfx11, not qr_async"},
      {{"trload_head_dims", fwd, "gfx950", "forward", "qr_async_trload", tile128({{"d", 192}})},
       "is for head dims 64/64 and 128/128"},
      {{"trload_head_dims", fwd, "gfx950", "forward", "qr_async_trload_v3", tile128({{"d", 64}, {"dv", 64}})},
       "is for head dims 128/128"},
      {{"v3_tile", fwd, "gfx950", "forward", "qr_async_trload_v3", tile128()}, "needs block_q=256"},
      {{"v3_tile", fwd, "gfx950", "forward", "qr_async_trload", tile128()}, "needs block_k other than 128"},
      {{"batch_prefill_gfx11", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11",
        prefill({{"d", 256}, {"dv", 256}})},
       "not 256/256"},
      {{"batch_prefill_gfx11", "fwd bf16 b=1 h=1 s=1 d=128 varlen paged=16 kv_layout=vectorized", "gfx1100",
        "batch_prefill", "batch_prefill_gfx11", prefill()},
       "use kv_layout=linear"},
      {{"batch_prefill_gfx11", "fwd bf16 b=1 h=1 s=1 d=128 varlen paged=16 dropout=0.1", "gfx1100",
        "batch_prefill", "batch_prefill_gfx11", prefill()},
       "has no dropout"},
      {{"batch_prefill_gfx11", "fwd bf16 b=1 h=1 s=1 d=128 varlen paged=16 softcap=30", "gfx1100",
        "batch_prefill", "batch_prefill_gfx11", prefill()},
       "has no softcap"},
      {{"batch_prefill_gfx11", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11",
        prefill({{"block_q", 64}})},
       "needs block_q=128, not 64"},
      {{"batch_prefill_gfx11", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11",
        prefill({{"block_k", 64}})},
       "needs block_k=32, not 64"},
      {{"batch_prefill_gfx11", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11",
        prefill({{"block_d", 64}})},
       "needs block_d=32, not 64"},
      {{"batch_prefill_gfx11", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11",
        prefill({{"block_dv", 64}})},
       "needs block_dv=128, not 64"},
      {{"batch_prefill_gfx11", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11",
        prefill({{"step_k", 16}})},
       "needs step_k=32, not 16"},
      {{"batch_prefill_gfx11", paged, "gfx1100", "batch_prefill", "batch_prefill_gfx11",
        prefill({{"warps", 4}})},
       "needs warps=8, not 4"},
      {{"tile_is_complete", fwd, "gfx942", "forward", "qr", tile128({{"warps", 0}})}, "does not say warps"},
      {{"tile_is_complete", fwd, "cpu-avx2", "backward", "", tile128({{"block_q", 0}})},
       "does not say block_q"},
      {{"tile_is_complete", fwd, "cpu-avx2", "decode", "", tile128({{"block_k", 0}})},
       "does not say block_k"},
      {{"cpu_tile_sizes", fwd, "cpu-avx2", "forward", "", {{"block_q", 63}, {"block_k", 192}}},
       "block_q=63 of its tile (line 0 of targets/cpu-avx2.toml) must be a multiple of 64"},
      {{"cpu_tile_sizes", fwd, "cpu-avx2", "forward", "", {{"block_q", 64}, {"block_k", 33}}},
       "block_k=33 of its tile (line 0 of targets/cpu-avx2.toml) must be a multiple of 48"},
      {{"cpu_tile_sizes",
        "fwd fp32 b=1 h=1 s=8 d=64 bits",
        "cpu-avx2",
        "forward",
        "",
        {{"block_q", 64}, {"block_k", 48}}},
       "must be a multiple of 96"},
      {{"cpu_tile_sizes", fwd, "cpu-amx", "forward", "", {{"block_q", 64}, {"block_k", 64}}},
       "must be a multiple of 64, 128 or more"},
      {{"cpu_tile_sizes", fwd, "cpu-avx2", "forward", "", {{"block_q", 64}, {"block_k", 192}, {"group", 3}}},
       "has group=3, which is for decode alone"},
      {{"cpu_tile_sizes", fwd, "cpu-avx2", "decode", "", {{"block_k", 64}, {"group", 3}}},
       "group=3 of its tile (line 0 of targets/cpu-avx2.toml) must be a power of two from 1 to 8"},
      {{"cpu_tile_sizes", fwd, "cpu-avx2", "decode", "", {{"block_k", 192}, {"group", 1}}},
       "must be a power of two from 8 to 2048"},
      {{"cpu_tile_sizes", bwd, "cpu-amx", "backward", "", {{"block_q", 128}, {"block_k", 256}}},
       "block_q=128 of its tile (line 0 of targets/cpu-amx.toml) must be 64"},
      {{"launch_fits", fwd, "gfx942", "forward", "qr", tile128({{"warps", 32}})},
       "2048 threads per block are above the 1024"},
      {{"launch_fits", fwd, "gfx942", "forward", "qr", tile128({{"occupancy", -1}})},
       "occupancy=-1 is negative"},
      {{"two_warps_share_rows", fwd, "sm_90", "forward", "mma_async", tile128({{"warps_across", 4}})},
       "warps_across=4 does not go with its tile"},
      {{"two_warps_share_rows", fwd, "sm_90", "forward", "mma_async",
        tile128({{"warps", 3}, {"warps_across", 2}})},
       "of 2, 4, 8 or 16"},
      {{"two_warps_share_rows", fwd, "sm_90", "forward", "mma_async",
        tile128({{"block_k", 96}, {"warps_across", 2}})},
       "64 keys or a multiple of 128"},
      {{"two_warps_share_rows", fwd, "sm_90", "forward", "mma_async",
        tile128({{"block_k", 192}, {"warps_across", 2}})},
       "64 keys or a multiple of 128"},
      {{"two_warps_share_rows", "fwd fp32 b=1 h=1 s=64 d=64", "sm_90", "forward", "mma_async",
        tile128({{"warps_across", 2}})},
       "operands of 16 bits"},
      {{"two_warps_share_rows", fwd, "sm_90a", "forward", "wgmma_tma", tile128({{"warps_across", 2}})},
       "of a portable forward kernel"},
      {{"shared_memory_fits", fwd, "gfx942", "forward", "qr", tile128({{"block_q", 256}, {"block_d", 128}})},
       "needs 98304 bytes of shared memory, gfx942 has 65536"},
      {{"shared_memory_fits", fwd, "gfx942", "forward", "qr_async", tile128({{"block_d", 128}})},
       "needs 98304 bytes"},
      {{"shared_memory_fits", fwd, "sm_120", "forward", "mma_async", tile128({{"stages", 2}})},
       "use a smaller tile"},
      // With what the kernel declares itself beside what a launch gives it.
      {{"shared_memory_fits", fwd, "sm_90a", "forward", "wgmma_tma",
        tile128({{"block_k", 193}, {"stages", 2}})},
       "needs 233472 bytes of shared memory, sm_90a has 232448"},
      {{"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=64 bits", "sm_80", "forward", "mma_async",
        tile128({{"d", 64}, {"dv", 64}})},
       "each thread of its tile has 128 scores, and a mask of bits leaves registers for 64; use a smaller "
       "block_k"},
      {{"accumulators_leave_room", biased, "sm_80", "forward", "mma_async", tile128({{"block_k", 64}})},
       "each thread of its tile has 192 accumulators, and a bias leaves registers for 160; use a smaller "
       "block_q"},
      {{"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=128 bias=alibi dropout=0.1", "sm_80", "forward",
        "mma_async", tile128({{"block_k", 64}})},
       "192 accumulators, and a bias with dropout leaves registers for 160"},
      {{"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=64 bias=bh dropout=0.1", "sm_75", "forward",
        "mma", tile128({{"block_k", 64}, {"d", 64}, {"dv", 64}})},
       "a bias with dropout leaves registers for 96"},
      {{"accumulators_leave_room", "fwd fp16 b=1 h=1 s=64 d=192 dv=128 mask=causal", "sm_80", "forward",
        "mma_async", tile128({{"block_k", 64}, {"d", 192}})},
       "192 accumulators, and a mask at a head dim above 128 leaves registers for 160"},
      {{"steps_divide", fwd, "gfx942", "forward", "qr", tile128({{"block_d", 48}})},
       "steps of block_d=48 do not divide the head dim 128"},
      {{"fragments_divide", fwd, "gfx942", "forward", "qr", tile128({{"block_q", 24}})},
       "no bf16 matrix instruction of gfx942 divides a tile of 24 queries"},
      {{"wide_qr_fragments", fwd, "gfx942", "forward", "qr",
        tile128({{"d", 256}, {"dv", 256}, {"block_k", 64}})},
       "multiple of 8 matrix instructions"},
      {{"cdna_tile_shape", fwd, "gfx942", "forward", "qr", tile128({{"block_k", 64}})},
       "needs block_k=128, not 64"},
      {{"cdna_tile_shape", fwd, "gfx942", "forward", "qr_async", tile128({{"block_q", 64}})},
       "needs block_q=128, not 64"},
      {{"cdna_tile_shape", fwd, "gfx942", "forward", "qr", tile128({{"block_d", 64}})},
       "block_d other than 64"},
      {{"cdna_tile_shape", fwd, "gfx942", "forward", "qr_async",
        tile128({{"d", 64}, {"dv", 64}, {"block_q", 64}})},
       "qr_async needs block_q=128"},
      {{"cdna_tile_shape", fwd, "gfx942", "forward", "qr", tile128({{"d", 64}, {"dv", 64}, {"block_q", 32}})},
       "block_q of 64, 128, 192 or 256, not 32"},
      {{"async_loads_are_even", fwd, "gfx942", "forward", "qr_async", tile128({{"block_k", 24}})},
       "do not divide a step of 24 keys by 32"},
      {{"kernel_exists", fwd, "gfx942", "forward"},
       "hip target gfx942: no forward kernel yet; cpu-amx has one"},
      {{"kernel_exists", paged, "cpu-avx2", "batch_prefill"},
       "no batch_prefill kernel yet; no target has one yet"},
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
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(accept.contains(rule.name)) << rule.name;
    EXPECT_TRUE(refuse.contains(rule.name)) << rule.name;
  }
}

/// A table whose tiles can never be used is a mistake in the table.
TEST(Rules, EveryTileOfEveryTableServesSomething) {
  const Result<std::vector<Target>>& all = targets();
  ASSERT_TRUE(all);
  for (const Target& target : *all) {
    std::map<int, bool> served;  // by line: a row stands for a tile for each of its pipelines
    for (const Target::Tile& tile : target.tiles) {
      if (tile.kernel == "combine") continue;
      bool& of_line = served[tile.line];
      for (const Recipe& recipe : recipes()) {
        if (recipe.kernel != tile.kernel || of_line) continue;
        Problem problem;
        problem.pass = recipe.pass;
        problem.dtype = tile.dtypes[0];
        problem.out = default_out(problem.dtype);
        problem.d = tile.max_d;
        problem.dv = tile.max_dv;
        problem.sq = problem.sk = 64;
        problem.varlen = recipe.family == Family::batch_prefill;
        problem.paged = recipe.family == Family::paged || problem.varlen ? 16 : 0;
        const Candidate candidate{&recipe, &tile};
        of_line = std::ranges::none_of(rules(), [&](const Rule& rule) {
          if (rule.about_shape || rule.name == "kernel_exists" || rule.name == "hopper_forward") return false;
          return rule.check({problem, target, candidate, {}}).has_value();
        });
      }
    }
    for (const auto& [line, good] : served) EXPECT_TRUE(good) << target.name << ".toml:" << line;
  }
}

}  // namespace
}  // namespace regard
