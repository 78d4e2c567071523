// GPU tiles: what fits the machine and its matrix instructions.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "plan/cpu_plans.h"
#include "plan/gpu_plans.h"
#include "plan/pipelines.h"
#include "plan/rules.h"
#include "plan/stage.h"

namespace regard {
namespace {

/// The numbers of a GPU tile with their defaults put in.
struct Numbers {
  std::int64_t q, k, d, dv, step_k, warps, stages, bytes;
  Numbers(const Target::Tile& tile, DType dtype)
      : q(value_of(tile, "block_q")),
        k(value_of(tile, "block_k")),
        d(value_of(tile, "block_d")),
        dv(value_of(tile, "block_dv")),
        step_k(value_of(tile, "step_k")),
        warps(value_of(tile, "warps")),
        stages(std::max<std::int64_t>(value_of(tile, "stages"), 1)),
        bytes(static_cast<std::int64_t>(bytes_of(dtype))) {
    if (d == 0) d = tile.max_d;
    if (dv == 0) dv = tile.max_dv;
    if (step_k == 0) step_k = k;
  }
};

bool has_gpu_tile(const Question& q) {
  return q.target.kind != TargetKind::cpu && q.candidate.tile != nullptr;
}
/// The forward kernel of kernels/<folder> on a CUDA target.
bool is_cuda_forward(const Question& q, std::string_view folder) {
  const Target::Tile& tile = *q.candidate.tile;
  return q.target.kind == TargetKind::cuda && tile.kernel == "forward" &&
         source_folder(tile.pipeline) == folder;
}
/// The first instruction of the target whose shape divides the tile.
const Target::Fragment* fragment_of(const Target& target, const Numbers& n, DType dtype) {
  for (const Target::Fragment& f : target.fragments) {
    if (std::find(f.dtypes.begin(), f.dtypes.end(), dtype) == f.dtypes.end()) continue;
    if (f.m > 0 && f.n > 0 && f.k > 0 && n.q % f.m == 0 && n.k % f.n == 0 && n.d % f.k == 0) return &f;
  }
  return nullptr;
}

}  // namespace

namespace {

/// The numbers that plans of a kernel divide by.
std::span<const std::string_view> needed_numbers(const Target& target, std::string_view kernel) {
  static constexpr std::string_view of_gpu[] = {"block_q", "block_k", "warps"},
                                    of_tiles[] = {"block_q", "block_k"}, of_keys[] = {"block_k"};
  if (target.kind != TargetKind::cpu) return of_gpu;
  if (kernel.starts_with("generic_") || kernel == "combine") return {};
  if (kernel == "decode") return of_keys;
  return of_tiles;
}

Refusal lacks_number(const Target& target, const Target::Tile& tile) {
  for (std::string_view name : needed_numbers(target, tile.kernel)) {
    if (value_of(tile, name) > 0) continue;
    return fmt::format("its tile (line {} of targets/{}.toml) does not say {}", tile.line, target.name, name);
  }
  return {};
}

}  // namespace

Refusal tile_is_complete(const Question& q) {
  if (q.candidate.tile == nullptr) return {};
  if (q.target.kind != TargetKind::cpu && q.target.wave <= 0)
    return fmt::format("targets/{}.toml does not say wave", q.target.name);
  return lacks_number(q.target, *q.candidate.tile);
}

Refusal launch_fits(const Question& q) {
  if (!has_gpu_tile(q)) return {};
  const Target::Tile& tile = *q.candidate.tile;
  const std::int64_t threads = value_of(tile, "warps") * q.target.wave;
  if (threads > q.target.max_threads_per_block) {
    return fmt::format("{} threads per block are above the {} of {}; use fewer warps", threads,
                       q.target.max_threads_per_block, q.target.name);
  }
  for (std::string_view name : {"occupancy", "warp_groups", "warps_across"}) {
    if (value_of(tile, name) >= 0) continue;
    return fmt::format("{}={} is negative; it is a count, or 0 for the default", name, value_of(tile, name));
  }
  return {};
}

Refusal two_warps_share_rows(const Question& q) {
  if (!has_gpu_tile(q) || value_of(*q.candidate.tile, "warps_across") <= 1) return {};
  const std::int64_t across = value_of(*q.candidate.tile, "warps_across");
  const Numbers n(*q.candidate.tile, q.problem.dtype);
  // A warp's keys are half a line of shared memory, or whole ones.
  const bool halves = n.k == 64 || (n.k > 0 && n.k % 128 == 0);
  const bool pairs = n.warps > 1 && std::has_single_bit(static_cast<std::uint64_t>(n.warps));
  if (is_cuda_forward(q, "portable") && across == 2 && n.bytes <= 2 && pairs && halves) return {};
  return fmt::format(
      "warps_across={} does not go with its tile: two warps of a portable forward kernel may share rows, "
      "of 2, 4, 8 or 16, with operands of 16 bits or less and 64 keys or a multiple of 128",
      across);
}

Refusal shared_memory_fits(const Question& q) {
  if (!has_gpu_tile(q)) return {};
  const Target::Tile& tile = *q.candidate.tile;
  const Numbers n(tile, q.problem.dtype);
  const std::int64_t bytes = is_cuda_forward(q, "sm90")
                                 ? sm90_layout(q.problem, tile).total() + Sm90ForwardLayout::static_bytes
                                 : portable_layout(q.problem, tile).total();
  if (bytes <= q.target.shared_memory) return {};
  return fmt::format("its tile needs {} bytes of shared memory, {} has {} per block; use a smaller tile",
                     bytes, q.target.name, q.target.shared_memory);
}

Refusal accumulators_leave_room(const Question& q) {
  if (!has_gpu_tile(q) || !is_cuda_forward(q, "portable")) return {};
  // What changes a score stands in registers beside the sums; a bias, which is loaded ahead, in the most.
  // Above these counts the compiler begins to spill. They are counted in the tile's columns: of a smaller dv
  // the kernel has fewer sums, and spills all the same where these would refuse it.
  constexpr std::int64_t most_scores = 64, most_sums = 160;
  constexpr std::int64_t most_sums_by_plain_loads = 96;  // which pass through registers
  const Problem& p = q.problem;
  const bool bias = has_elementwise_bias(p.bias), bias_and_dropout = p.bias != Bias::none && p.dropout > 0;
  const bool wide_mask = p.mask != Mask::none && p.d > 128;

  // Of a wave's rows, spread over its lanes.
  const Numbers n(*q.candidate.tile, p.dtype);
  const std::int64_t rows = n.q / n.warps, scores = rows * n.k / q.target.wave;
  const std::int64_t sums = scores + rows * n.dv / q.target.wave;
  if ((bias || p.bits || p.dropout > 0) && scores > most_scores)
    return fmt::format(
        "each thread of its tile has {} scores, and {} leaves registers for {}; use a smaller block_k",
        scores,
        bias     ? "a bias"
        : p.bits ? "a mask of bits"
                 : "dropout",
        most_scores);

  const Pipeline* pipeline = find_pipeline(q.candidate.pipeline());
  const bool plain_loads = pipeline != nullptr && !pipeline->async;
  const std::int64_t most = bias_and_dropout && plain_loads ? most_sums_by_plain_loads : most_sums;
  if ((bias || bias_and_dropout || wide_mask) && sums > most)
    return fmt::format(
        "each thread of its tile has {} accumulators, and {} leaves registers for {}; use a smaller "
        "block_q",
        sums,
        bias_and_dropout ? "a bias with dropout"
        : bias           ? "a bias"
                         : "a mask at a head dim above 128",
        most);
  return {};
}

Refusal steps_divide(const Question& q) {
  if (!has_gpu_tile(q)) return {};
  const Target::Tile& tile = *q.candidate.tile;
  const Numbers n(tile, q.problem.dtype);
  const std::int64_t d = std::max(tile.max_d, value_of(tile, "padded_d"));
  if (n.d <= d && d % n.d == 0) return {};
  return fmt::format("steps of block_d={} do not divide the head dim {}", n.d, d);
}

Refusal fragments_divide(const Question& q) {
  if (!has_gpu_tile(q) || q.target.fragments.empty()) return {};
  const Numbers n(*q.candidate.tile, q.problem.dtype);
  if (fragment_of(q.target, n, q.problem.dtype) != nullptr) return {};
  return fmt::format("no {} matrix instruction of {} divides a tile of {} queries, {} keys and steps of {}",
                     word(q.problem.dtype), q.target.name, n.q, n.k, n.d);
}

}  // namespace regard
