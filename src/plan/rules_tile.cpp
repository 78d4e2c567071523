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
  return q.target.on_gpu() && q.candidate.tile != nullptr;
}
/// The forward kernel of kernels/<folder> on a CUDA target.
bool is_cuda_forward(const Question& q, std::string_view folder) {
  const Target::Tile& tile = *q.candidate.tile;
  return q.target.kind == TargetKind::cuda && tile.kernel == "forward" &&
         source_folder(tile.pipeline) == folder;
}
bool is_cdna(const Target& target) {
  return target.has("cdna2") || target.has("cdna3") || target.has("cdna4");
}

/// The first instruction of the target whose shape divides the tile.
const Target::Fragment* fragment_of(const Target& target, const Numbers& n, DType dtype) {
  for (const Target::Fragment& f : target.fragments) {
    if (std::find(f.dtypes.begin(), f.dtypes.end(), dtype) == f.dtypes.end()) continue;
    if (f.m > 0 && f.n > 0 && f.k > 0 && n.q % f.m == 0 && n.k % f.n == 0 && n.d % f.k == 0) return &f;
  }
  return nullptr;
}

bool computes_scores(const Question& q) {
  return q.candidate.recipe->family != Family::append_kv;
}

}  // namespace

namespace {

/// The numbers that plans of a kernel divide by.
std::span<const std::string_view> needed_numbers(const Target& target, std::string_view kernel) {
  static constexpr std::string_view of_gpu[] = {"block_q", "block_k", "warps"},
                                    of_tiles[] = {"block_q", "block_k"}, of_keys[] = {"block_k"};
  if (target.on_gpu()) return of_gpu;
  if (kernel.starts_with("generic_") || kernel == "combine") return {};
  if (kernel == "decode" || kernel == "append_kv") return of_keys;
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
  if (q.target.on_gpu() && q.target.wave <= 0)
    return fmt::format("targets/{}.toml does not say wave", q.target.name);
  if (Refusal lacks = lacks_number(q.target, *q.candidate.tile)) return lacks;
  const Target::Tile* appends = q.candidate.recipe->appends ? append_tile(q.problem, q.target) : nullptr;
  return appends != nullptr ? lacks_number(q.target, *appends) : Refusal();
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
  if (!has_gpu_tile(q) || !computes_scores(q)) return {};
  const Target::Tile& tile = *q.candidate.tile;
  const Numbers n(tile, q.problem.dtype);
  const Pipeline* pipeline = find_pipeline(q.candidate.pipeline());
  std::int64_t bytes;
  if (q.target.kind == TargetKind::cuda && q.candidate.recipe->family == Family::backward) {
    // Q and dO of a step, K and V of the block, P and dS between the products.
    bytes = (n.stages * n.q * (tile.max_d + tile.max_dv) + n.k * (tile.max_d + tile.max_dv) + n.q * n.k) *
            n.bytes;
  } else if (is_cuda_forward(q, "portable")) {
    bytes = portable_layout(q.problem, tile).total();
  } else if (is_cuda_forward(q, "sm90")) {
    bytes = sm90_layout(q.problem, tile).total() + Sm90ForwardLayout::static_bytes;
  } else if (q.target.kind == TargetKind::cuda) {
    // Q (O takes its place at the end), and K and V once per stage.
    bytes = (n.q * std::max(tile.max_d, tile.max_dv) + n.stages * n.k * (tile.max_d + tile.max_dv)) * n.bytes;
  } else if (pipeline != nullptr && pipeline->async) {
    // Three buffers of the larger of a step of K and a step of V.
    bytes = 3 * std::max(n.k * n.d, n.dv * n.step_k) * n.bytes;
  } else {
    bytes = (n.q * n.d + n.k * n.d) * n.bytes;
  }
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
  if (!has_gpu_tile(q) || !computes_scores(q)) return {};
  const Target::Tile& tile = *q.candidate.tile;
  const Numbers n(tile, q.problem.dtype);
  const std::int64_t d = std::max(tile.max_d, value_of(tile, "padded_d"));
  if (n.d <= d && d % n.d == 0) return {};
  return fmt::format("steps of block_d={} do not divide the head dim {}", n.d, d);
}

Refusal fragments_divide(const Question& q) {
  if (!has_gpu_tile(q) || !computes_scores(q) || q.target.fragments.empty()) return {};
  const Numbers n(*q.candidate.tile, q.problem.dtype);
  if (fragment_of(q.target, n, q.problem.dtype) != nullptr) return {};
  return fmt::format("no {} matrix instruction of {} divides a tile of {} queries, {} keys and steps of {}",
                     word(q.problem.dtype), q.target.name, n.q, n.k, n.d);
}

Refusal wide_qr_fragments(const Question& q) {
  if (!has_gpu_tile(q) || !is_cdna(q.target) || q.candidate.pipeline() != "qr") return {};
  const Target::Tile& tile = *q.candidate.tile;
  const Numbers n(tile, q.problem.dtype);
  const Target::Fragment* f = fragment_of(q.target, n, q.problem.dtype);
  if (tile.max_d != 256 || f == nullptr || q.candidate.recipe->family == Family::split_kv) return {};
  const std::int64_t products = (n.q / f->m) * (n.k / f->n) * (n.d / f->k);
  if (products % (8 * n.warps) == 0) return {};
  return fmt::format(
      "at head dim 256 each of its {} warps needs a multiple of 8 matrix instructions per step, {} are "
      "not; use a larger block_k",
      n.warps, products);
}

Refusal cdna_tile_shape(const Question& q) {
  if (!has_gpu_tile(q) || !is_cdna(q.target) || q.problem.dtype == DType::fp32) return {};
  if (q.candidate.recipe->family != Family::forward) return {};
  const bool async = q.candidate.pipeline() == "qr_async";
  if (!async && q.candidate.pipeline() != "qr" && q.candidate.pipeline() != "qs") return {};
  const Target::Tile& tile = *q.candidate.tile;
  const Numbers n(tile, q.problem.dtype);
  if (tile.max_d == 128 && tile.max_dv == 128) {
    if (n.k != 128)
      return fmt::format("at 128/128 pipeline {} needs block_k=128, not {}", q.candidate.pipeline(), n.k);
    if (async && n.q != 128)
      return fmt::format("at 128/128 pipeline qr_async needs block_q=128, not {}", n.q);
    if (!async && n.d == 64) {
      return fmt::format("at 128/128 pipeline {} needs block_d other than 64, such as 32",
                         q.candidate.pipeline());
    }
    return {};
  }
  if (async && n.q != 128) return fmt::format("pipeline qr_async needs block_q=128, not {}", n.q);
  if (n.q == 64 || n.q == 128 || n.q == 192 || n.q == 256) return {};
  return fmt::format("pipeline {} needs block_q of 64, 128, 192 or 256, not {}", q.candidate.pipeline(), n.q);
}

Refusal async_loads_are_even(const Question& q) {
  if (!has_gpu_tile(q) || !is_cdna(q.target) || q.candidate.pipeline() != "qr_async") return {};
  const Numbers n(*q.candidate.tile, q.problem.dtype);
  // Every lane loads one vector straight into shared memory: 16 bytes on CDNA4, 4 before.
  const std::int64_t vector = (q.target.has("cdna4") ? 16 : 4) / n.bytes;
  const std::int64_t step = q.target.wave * n.warps * vector;
  if (step > 0 && n.k * n.d % step == 0) return {};
  return fmt::format(
      "asynchronous loads move {} elements at a time, which do not divide a step of {} keys by {}", step, n.k,
      n.d);
}

}  // namespace regard
