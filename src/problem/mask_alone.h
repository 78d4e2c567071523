// A mask that is a function, as a kernel that is compiled for it has it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace regard {

/// Its text depends neither on names nor on the score beside it.
struct MaskAlone {
  std::string keep, tensors;
  std::vector<int> of_numbers, of_tensors;  ///< which of the problem's each of its own is
};

/// Fails for texts that are not those of a problem or signature with `keep`.
Result<MaskAlone> mask_alone(std::string_view keep, std::string_view tensors);

}  // namespace regard
