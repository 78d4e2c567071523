// A problem's fields by name, read and changed through its JSON: the command sees problems as their text
// does.
#pragma once

#include <cstdint>
#include <string>

#include "regard/regard.hpp"

namespace regard::cli {

/// The fields that the command itself needs.
struct Fields {
  std::string pass;
  std::int64_t b = 0, sq = 0, sk = 0, tq = 0, tk = 0;
  bool varlen = false, lengths = false;
};
Fields fields_of(const Problem&);

/// The same problem with other token counts (0: b * s).
Problem with_tokens(const Problem&, std::int64_t tq, std::int64_t tk);

/// One sequence of `problem` as a dense problem.
Problem one_sequence(const Problem& problem, std::int64_t sq, std::int64_t sk);

/// The forward problem that computes the O and LSE that a backward problem reads.
Problem forward_of(const Problem& backward);

}  // namespace regard::cli
