// The lengths of sequences: given, or drawn at random, for varlen problems and for `lengths`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/drawn_cache.h"
#include "cli/fields.h"
#include "regard/regard.hpp"

namespace regard::cli {

/// The rows of one side (queries or keys).
struct Side {
  std::vector<std::int32_t> offsets;  ///< varlen: b + 1 cumulative physical lengths
  std::vector<std::int32_t> lengths;  ///< `lengths`: b logical lengths
};

struct Sequences {
  Side q, k;
  DrawnCache cache;  ///< of a KV cache; its lengths are those of k, too
};

/// What the user gives about one side; vectors are empty where nothing is given.
struct GivenSide {
  std::vector<std::int64_t> offsets;  ///< from a file
  std::vector<std::int64_t> lengths;  ///< from --lengths-q: logical with `lengths`, else physical
};

/// "5,0,17" as numbers.
std::vector<std::int64_t> parse_lengths(const std::string& text, const std::string& option);

/// Fills in what is not given. Drawn physical lengths are in [0, s], the first is s, and they add up to tq or
/// tk where the problem specifies them; q and k are drawn in the same way, so that equal sides stay equal
/// (self-attention).
Sequences choose_sequences(const Problem&, const GivenSide& q, const GivenSide& k, std::uint64_t seed);

/// The problem with tq and tk from the chosen offsets.
Problem with_sequences(const Problem&, const Sequences&);

/// Operations over the logical lengths (visible pairs by the positional mask).
double flops_of(const Problem&, const Sequences&);

}  // namespace regard::cli
