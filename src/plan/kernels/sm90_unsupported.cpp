#include "plan/kernels/sm90_unsupported.h"

#include <fmt/format.h>

#include "kernels/sm90/boxes.h"

namespace regard {

std::string unsupported(std::string_view what, std::string_view instead) {
  return fmt::format("it does not support {}; {} does", what, instead);
}

Refusal sm90_unsupported(const Problem& p, std::string_view instead) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(p.dtype));
  const std::string large_cap = fmt::format("a soft cap above {}", Sm90Boxes::largest_soft_cap);
  const std::pair<std::string_view, bool> missing[] = {
      {"rows that are not a multiple of 16 bytes", p.d * bytes % 16 != 0 || p.dv * bytes % 16 != 0},
      {"lengths in layout=sbhd", p.lengths && !p.varlen && p.layout == Layout::sbhd},
      {"an elementwise bias", has_elementwise_bias(p.bias)},
      {"K in two tensors (k_rope)", p.k_rope},
      {"a scale of 0 or less", !(scale_of(p) > 0)},
      {large_cap, p.softcap > Sm90Boxes::largest_soft_cap},
  };
  for (const auto& [what, asked] : missing) {
    if (asked) return unsupported(what, instead);
  }
  return {};
}

}  // namespace regard
