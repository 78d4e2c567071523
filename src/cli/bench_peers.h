// regard bench --peers: other libraries beside Regard. They are Python's, so that Python measures all of
// them, in one process on the same tensors.
#pragma once

#include <vector>

#include "cli/request.h"
#include "regard/regard.hpp"

namespace regard::cli {

/// What is to be measured: one problem on one target by one family.
struct AskedCell {
  Problem problem;
  regard::Options where;
};

/// Puts Python in the place of this process. It prints what `bench` does, and the times of the peers.
[[noreturn]] void bench_peers(const std::vector<AskedCell>&, const Request&);

}  // namespace regard::cli
