// The sequences of queries, or of keys: dense or packed, with all or some of their rows.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "call.h"

namespace aiter {

/// AITER's fields for queries or for keys; `letter` is the one that ends their names.
struct Lengths {
  char letter;                // q or k
  const void* seqstart;       // start offsets, if packed
  const void* seqlen;         // logical lengths
  const void* cu_seqlen;      // cumulative sums of those
  std::int64_t dense_rows;    // of each, if dense
  std::int64_t longest = -1;  // of the longest, as the caller claims; -1: unknown
};

class Sequences {
 public:
  Sequences(const Lengths& lengths, bool varlen, std::int64_t batch, void* stream);

  std::int64_t rows() const { return rows_; }      // of the longest in memory
  std::int64_t tokens() const { return tokens_; }  // of all of them, if packed
  bool shorter() const { return !counts_.empty() || counts_in_place_ != nullptr; }

  /// Sets the offsets and lengths.
  void set(calls::Call& call) const;

  /// Sets a tensor of tokens by its strides in AITER's order; packed tensors have no batch stride.
  void set_tokens(calls::Call& call, te_regard_role role, const void* data, std::int64_t row,
                  std::int64_t head, std::int64_t batch) const;

 private:
  void count(const Lengths& lengths, std::int64_t batch, void* stream);

  bool queries_, varlen_;
  const void* seqstart_;
  const void* counts_in_place_ = nullptr;
  std::int64_t rows_ = 0, tokens_ = 0;
  std::vector<std::int32_t> rooms_;   // rows of each sequence in memory
  std::vector<std::int32_t> counts_;  // logical length of each sequence
};

}  // namespace aiter
