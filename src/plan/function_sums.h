// Sums of the places of a row and a key: what the conditions and distances of words consist of.
#pragma once

#include <cstdint>
#include <optional>

#include "function/tree.h"

namespace regard {

/// q, kv, sq and sk, each times a whole number, and a constant.
struct PlaceSum {
  std::int64_t q = 0, kv = 0, sq = 0, sk = 0, constant = 0;

  friend bool operator==(const PlaceSum&, const PlaceSum&) = default;
  PlaceSum operator-(const PlaceSum& other) const {
    return {q - other.q, kv - other.kv, sq - other.sq, sk - other.sk, constant - other.constant};
  }
};

/// How far a key is after the diagonal from the top left, q, or from the bottom right, p.
constexpr PlaceSum after_q = {.q = -1, .kv = 1}, after_p = {.q = -1, .kv = 1, .sq = 1, .sk = -1};

/// Below this, sums of a few of them do not leave int32, so that they do not wrap.
constexpr std::int64_t most_in_sums = 1 << 28;

/// Empty for a node that is not such a sum.
std::optional<PlaceSum> sum_of(const function::Function&, function::NodeIndex);

}  // namespace regard
