// Which bias is added to scores.
#pragma once

#include "kernels/numbers.h"

namespace regard {

constexpr bool alibi = config::bias == Bias::alibi || config::bias == Bias::alibi_batch;
constexpr bool elementwise_bias = config::bias != Bias::none && !alibi;
constexpr bool has_bias = alibi || elementwise_bias;

}  // namespace regard
