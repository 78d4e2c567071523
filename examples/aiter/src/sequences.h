// The sequences of queries, or of keys: dense or packed, with all of their rows or less.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "call.h"

namespace aiter {

/// AITER's fields for one of the two, whose names end in this letter.
struct Lengths {
  char letter;                // q or k
  const void* seqstart;       // where each begins, packed
  const void* seqlen;         // how many rows of each count
  const void* cu_seqlen;      // cumulative sums of that
  std::int64_t dense_rows;    // of each, dense
  std::int64_t longest = -1;  // what the caller says of the longest; -1: nothing
};

class Sequences {
 public:
  Sequences(const Lengths& lengths, bool varlen, std::int64_t batch, void* stream);

  std::int64_t rows() const { return rows_; }      // of the longest in memory
  std::int64_t tokens() const { return tokens_; }  // of all of them, packed
  bool shorter() const { return !counts_.empty() || counts_in_place_ != nullptr; }

  /// Offsets and lengths.
  void set(calls::Call& call) const;

  /// A tensor of tokens by its strides in AITER's order, of which packed ones have no batch.
  void set_tokens(calls::Call& call, te_regard_role role, const void* data, std::int64_t row,
                  std::int64_t head, std::int64_t batch) const;

 private:
  void count(const Lengths& lengths, std::int64_t batch, void* stream);

  bool queries_, varlen_;
  const void* seqstart_;
  const void* counts_in_place_ = nullptr;
  std::int64_t rows_ = 0, tokens_ = 0;
  std::vector<std::int32_t> rooms_;   // rows of each in memory
  std::vector<std::int32_t> counts_;  // rows of each that count
};

}  // namespace aiter
