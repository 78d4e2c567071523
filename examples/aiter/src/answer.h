// The return values of AITER's functions: a time, 0, or -1 for a call that cannot be computed.
#pragma once

#include <functional>
#include <vector>

#include "call.h"
#include "ck_tile_names.h"

namespace aiter {

/// Calls to run one after the other, and the work that remains for the host after them.
struct Work {
  std::vector<calls::Call> calls;
  std::function<void()> afterwards = [] {};
};

/// Runs the work that `prepare` returns. An exception from either becomes -1 and the answer of why_refused();
/// each distinct reason is printed to stderr once.
float answer(const ck_tile::stream_config& config, const std::function<Work()>& prepare);

}  // namespace aiter
