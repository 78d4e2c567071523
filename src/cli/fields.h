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
  std::int64_t hk = 0, d = 0, dv = 0;
  // Of KV caches:
  std::int64_t snew = 0, tnew = 0, paged = 0, cache = 0, window_left = -1, sink_tokens = 0;
  bool left_padding = false, lists = false, vectorized = false, slots = false, rope = false, masked = false,
       top_left = false, given_positions = false, first_positions = false, factors_of_tokens = false;

  /// Whether K and V are a KV cache, whose numbers are those of drawn_cache.h.
  bool is_cache() const { return paged > 0 || cache > 0 || left_padding || snew > 0 || tnew > 0; }
};
Fields fields_of(const Problem&);

/// The same problem with other token counts (0: b * s).
Problem with_tokens(const Problem&, std::int64_t tq, std::int64_t tk);

/// One sequence of `problem` as a dense problem.
Problem one_sequence(const Problem& problem, std::int64_t sq, std::int64_t sk);

/// The forward problem that computes the O and LSE that a backward problem reads.
Problem forward_of(const Problem& backward);

}  // namespace regard::cli
