// Element types and head dimensions.
#include <fmt/format.h>

#include <algorithm>

#include "plan/rules.h"

namespace regard {
namespace {

bool contains(const std::vector<DType>& dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

std::string words(const std::vector<DType>& dtypes) {
  std::string text;
  for (DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : ", ", word(dtype));
  return text;
}

}  // namespace

Refusal dtype_on_target(const Question& q) {
  if (contains(q.target.dtypes, q.problem.dtype)) return {};
  return fmt::format("{} does not compute in {}; it takes {}", q.target.name, word(q.problem.dtype),
                     words(q.target.dtypes));
}

Refusal backward_dtype(const Question& q) {
  if (q.problem.pass != Pass::bwd || bytes_of(q.problem.dtype) > 1) return {};
  return fmt::format("backward does not take {}; use bf16, fp16 or fp32", word(q.problem.dtype));
}

Refusal dtypes_go_together(const Question& q) {
  const Problem& p = q.problem;
  if (p.pass != Pass::fwd || p.out == p.dtype) return {};
  if (bytes_of(p.dtype) == 1 && bytes_of(p.out) > 1) return {};
  return fmt::format("{} inputs do not give {} output; use {}", word(p.dtype), word(p.out),
                     word(default_out(p.dtype)));
}

Refusal softcap_without_bias(const Question& q) {
  if (q.problem.softcap <= 0 || q.problem.bias == Bias::none) return {};
  return std::string("softcap does not go with a bias; use one of the two");
}

Refusal kernel_takes_dtype(const Question& q) {
  if (q.candidate.tile == nullptr || contains(q.candidate.tile->dtypes, q.problem.dtype)) return {};
  // A pipeline has tiles of several types; they count as one kernel.
  std::vector<DType> taken;
  for (const Target::Tile& other : q.target.tiles) {
    if (other.kernel != q.candidate.tile->kernel || other.pipeline != q.candidate.pipeline()) continue;
    for (const DType dtype : other.dtypes)
      if (!contains(taken, dtype)) taken.push_back(dtype);
  }
  if (contains(taken, q.problem.dtype)) taken = q.candidate.tile->dtypes;
  return fmt::format("it does not take {}; it takes {}", word(q.problem.dtype), words(taken));
}

Refusal head_dims_fit(const Question& q) {
  if (q.candidate.tile == nullptr) return {};
  const Target::Tile& tile = *q.candidate.tile;
  const auto fits = [&](const Target::Tile& one) {
    return q.problem.d <= one.max_d && q.problem.dv <= one.max_dv;
  };
  if (fits(tile)) return {};
  const bool wider =
      std::any_of(q.target.tiles.begin(), q.target.tiles.end(), [&](const Target::Tile& other) {
        return other.kernel == tile.kernel && contains(other.dtypes, q.problem.dtype) && fits(other);
      });
  const std::string_view who = wider ? "a wider kernel takes them"
                               : has_generic_kernel(q.problem.pass, q.target)
                                   ? "the generic kernel takes them"
                                   : "no kernel takes them yet";
  return fmt::format("head dims {}/{} are above its {}/{}; {}", q.problem.d, q.problem.dv, tile.max_d,
                     tile.max_dv, who);
}

Refusal head_dims_aligned(const Question& q) {
  if (q.candidate.tile == nullptr || q.target.on_cpu()) return {};
  const Target::Tile& tile = *q.candidate.tile;
  if (tile.max_d % 8 == 0 && tile.max_dv % 8 == 0) return {};
  return fmt::format(
      "its head dims {}/{} are not multiples of 8, the width of one load; pad them in the table", tile.max_d,
      tile.max_dv);
}

Refusal wide_heads_are_plain(const Question& q) {
  if (q.candidate.tile == nullptr || q.target.kind != TargetKind::hip) return {};
  const Target::Tile& tile = *q.candidate.tile;
  if (tile.kernel == "combine" || tile.max_d != 192 || tile.max_dv != 128) return {};
  if (q.problem.bias == Bias::none && q.problem.dropout == 0) return {};
  return std::string("its 192/128 kernel has neither bias nor dropout; the 192/192 or 256/256 one does");
}

}  // namespace regard
