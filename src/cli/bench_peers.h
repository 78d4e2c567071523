// regard bench --peers: compares other libraries with Regard. They are Python libraries, so Python measures
// all of them, in one process on the same tensors.
#pragma once

#include <vector>

#include "cli/request.h"
#include "regard/regard.hpp"

namespace regard::cli {

/// One measurement: one problem on one target by one family.
struct AskedCell {
  Problem problem;
  regard::Options where;
};

/// Replaces this process by Python, which prints what `bench` does, and the times of the peers.
[[noreturn]] void bench_peers(const std::vector<AskedCell>&, const Request&);

}  // namespace regard::cli
