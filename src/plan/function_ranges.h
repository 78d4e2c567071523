// The ranges of keys of a mask that is a function, as the first stage of a plan writes them.
#pragma once

#include <cstdint>

#include "kernels/arguments.h"
#include "plan/function_steps.h"
#include "plan/plan.h"

namespace regard {

/// int32 [batches, rows, 2], like the word `ranges`. Heads share ranges; sequences do, too, if the function
/// does not tell them apart.
struct RangesShape {
  std::int64_t batches = 1, rows;

  RangesShape(const Problem&, const FunctionSteps& ranges);
  std::int64_t bytes() const;
};

/// Sets where they are in the workspace of a call, as kernels read them; for a plan whose first stage writes
/// them.
void set_written_ranges(const Plan&, void* workspace, Arguments&);

}  // namespace regard
