// Checks of numbers inside tensors that lie in host memory.
#include "problem/tensors.h"

namespace regard {
namespace {

/// One side of the problem: queries or keys.
struct Side {
  std::string_view name;        ///< "q" or "k"
  std::int64_t longest;         ///< sq or sk
  std::int64_t tokens;          ///< rows of the packed tensor
  const std::int32_t* offsets;  ///< null when dense
  const std::int32_t* lengths;  ///< null when not given
};

std::string entry(std::string_view array, const Side& side, std::int64_t index, std::int64_t value) {
  return std::string(array) + "_" + std::string(side.name) + "[" + std::to_string(index) + "] is " +
         std::to_string(value);
}

Status check_offsets(const Problem& p, const Side& side) {
  if (side.offsets == nullptr) return {};
  if (side.offsets[0] != 0)
    return invalid(entry("offsets", side, 0, side.offsets[0]) + "; offsets start at 0");
  for (std::int64_t i = 0; i < p.b; ++i) {
    if (side.offsets[i + 1] >= side.offsets[i]) continue;
    return invalid(entry("offsets", side, i + 1, side.offsets[i + 1]) + ", below the " +
                   std::to_string(side.offsets[i]) + " before it; cumulative offsets never decrease");
  }
  if (side.offsets[p.b] > side.tokens) {
    return invalid(entry("offsets", side, p.b, side.offsets[p.b]) + ", past the " +
                   std::to_string(side.tokens) + " tokens of the tensor; the last offset is at most that");
  }
  return {};
}

Status check_sequences(const Problem& p, const Side& side) {
  if (side.offsets == nullptr && side.lengths == nullptr) return {};
  for (std::int64_t i = 0; i < p.b; ++i) {
    const std::int64_t physical =
        side.offsets == nullptr ? side.longest : std::int64_t{side.offsets[i + 1]} - side.offsets[i];
    const std::int64_t length = side.lengths == nullptr ? physical : side.lengths[i];
    if (length < 0 || length > physical) {
      return invalid(entry("lengths", side, i, length) + "; a logical length is between 0 and the physical " +
                     std::to_string(physical));
    }
    if (length > side.longest) {
      return invalid("sequence " + std::to_string(i) + " has " + std::to_string(length) +
                     " rows, more than s" + std::string(side.name) + "=" + std::to_string(side.longest) +
                     ", which must be the longest or above it");
    }
  }
  return {};
}

const std::int32_t* integers(const regard_arguments& arguments, regard_role role) {
  return static_cast<const std::int32_t*>(arguments.tensor[role].data);
}

}  // namespace

Status check_host_values(const Problem& p, const regard_arguments& arguments) {
  const auto tokens = [&](regard_role role) { return tensor_spec(p, role).shape[0]; };
  const Side sides[] = {
      {"q", p.sq, tokens(REGARD_Q), integers(arguments, REGARD_OFFSETS_Q),
       integers(arguments, REGARD_LENGTHS_Q)},
      {"k", p.sk, tokens(REGARD_K), integers(arguments, REGARD_OFFSETS_K),
       integers(arguments, REGARD_LENGTHS_K)},
  };
  for (const Side& side : sides) {
    if (Status status = check_offsets(p, side); !status) return status;
    if (Status status = check_sequences(p, side); !status) return status;
  }
  return {};
}

}  // namespace regard
