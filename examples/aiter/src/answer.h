// What AITER's functions return: a time, 0, or -1 for a call that cannot be done.
#pragma once

#include <functional>
#include <vector>

#include "call.h"
#include "ck_tile_names.h"

namespace aiter {

/// Calls to be run one after the other, and what is left to do on the host once they are done.
struct Work {
  std::vector<calls::Call> calls;
  std::function<void()> afterwards = [] {};
};

/// Runs what `prepare` gives. An exception of either becomes -1, a line on stderr, the first time that it
/// says what it says, and the answer of why_refused().
float answer(const ck_tile::stream_config& config, const std::function<Work()>& prepare);

}  // namespace aiter
