// The bits of a mask that is a function, as the first stage of a plan writes them.
#pragma once

#include <cstdint>

#include "kernels/function/steps.h"
#include "plan/function_steps.h"
#include "plan/plan.h"

namespace regard {

/// Larger masks are interpreted where they are used.
constexpr std::int64_t most_bytes_of_bits = std::int64_t{64} << 20;

/// uint32 [batches, heads, rows, words], followed by the map of each matrix. Sequences and heads share bits
/// if the function does not tell them apart.
struct BitsShape {
  std::int64_t batches = 1, heads = 1, rows, keys, words;

  BitsShape(const Problem&, const FunctionSteps& mask);
  std::int64_t bytes() const;      ///< of the bits alone
  std::int64_t map_bytes() const;  ///< of their maps
  WrittenBits strides() const;     ///< 0 for what is shared
};

/// Sets where they are in the workspace of a call, as kernels read them; for a plan whose first stage writes
/// them.
void set_written_bits(const Plan&, void* workspace, Arguments&);

}  // namespace regard
