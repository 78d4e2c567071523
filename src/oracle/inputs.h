// A problem's inputs as plain numbers: where each sequence begins, which keys a query sees, what is added to
// a score. With places.h the only file here that knows about strides, broadcasting, varlen and dtypes.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "kernels/philox.h"
#include "oracle/functions.h"
#include "oracle/new_tokens.h"
#include "oracle/places.h"
#include "problem/problem.h"
#include "regard/regard.h"

namespace regard::oracle {

/// The offset of element (batch, head, row, 0) of a role. Broadcast dimensions have stride 0; the columns are
/// contiguous.
struct Index {
  std::int64_t batch = 0, head = 0, row = 0;
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t r) const {
    return b * batch + h * head + r * row;
  }
};
Index index_of(regard_role, int rank, const std::int64_t* shape, const std::int64_t* strides);

/// One sequence of the batch: its logical lengths and the position of its first token. The first key is in
/// row 0 when dense, and after the left padding in a cache.
struct Sequence {
  std::int64_t sq = 0, sk = 0, first_q = 0, first_k = 0;
  std::int64_t before = 0;  ///< the row of a cache after its keys, where new tokens begin
  std::int64_t end() const { return first_k + sk; }
};

/// Rows of numbers.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
  double* row(std::int64_t i) { return values.data() + start_of(i); }
  const double* row(std::int64_t i) const { return values.data() + start_of(i); }

 private:
  std::int64_t start_of(std::int64_t i) const {
    assert(0 <= i && i < rows);
    return i * columns;
  }
};

class Inputs {
 public:
  Inputs(const Problem&, const regard_arguments&);

  const Problem& problem() const { return problem_; }
  const Sequence& sequence(std::int64_t batch) const {
    return sequences_[static_cast<std::size_t>(all_equal_ ? 0 : batch)];
  }
  /// Whether all sequences have the same lengths, so that the first one represents all.
  bool all_equal() const { return all_equal_; }
  std::int64_t kv_head(std::int64_t head) const { return head / (problem_.hq / problem_.hk); }

  /// The sequence's rows of Q, K, V, O or grad_o of one head, multiplied by their descale factor; queries are
  /// rotated, and new keys and values are those of the cache.
  Matrix matrix(regard_role, std::int64_t batch, std::int64_t head) const;

  /// The new tokens that are written, and those of one sequence.
  std::vector<NewToken> new_tokens() const;
  std::vector<NewToken> new_tokens(std::int64_t batch) const;
  /// What must be stored of one.
  StoredRow stored(regard_role role, const NewToken& token, std::int64_t kv_head) const {
    return new_tokens_.exact(role, token, kv_head, given_factor(role, token.batch, kv_head, token.place, 0));
  }

  /// What merge reads of a token, counted over all sequences, and head: LSE and a column of O of one part,
  /// and those that a merge in place finds in O and LSE themselves.
  double partial_lse(std::int64_t part, std::int64_t head, std::int64_t token) const {
    return read(REGARD_PARTIAL_LSE, part, head, token, 0);
  }
  double partial_o(std::int64_t part, std::int64_t head, std::int64_t token, std::int64_t column) const {
    return read(REGARD_PARTIAL_O, part, head, token, column);
  }
  double own_lse(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    return read(REGARD_LSE, batch, head, row, 0);
  }
  double own_o(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t column) const {
    return read(REGARD_O, batch, head, row, column);
  }

  double grad_lse(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    return problem_.dlse ? read(REGARD_GRAD_LSE, batch, head, row, 0) : 0;
  }

  /// Whether query i of the sequence sees its key j: position, ranges and bits all allow it.
  bool visible(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j) const;
  /// What is added to the scaled, capped score: elementwise bias or ALiBi.
  double bias(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j) const;
  const CallFunctions& functions() const { return functions_; }
  /// The variables of functions at a place.
  FunctionPlace place(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j) const;
  /// The learned sink's logit; -inf without one.
  double sink(std::int64_t head) const;
  /// The random generator for a head's dropout.
  philox::Random random(std::int64_t batch, std::int64_t head) const;
  /// Whether dropout keeps a weight of that head.
  bool kept(const philox::Random&, std::int64_t i, std::int64_t j) const;
  /// The factor of kept weights: the caller's, or 1 / the true probability of being kept.
  double dropout_scale() const { return problem_.keep_scale.value_or(256.0 / (keep_ + 1)); }

 private:
  bool visible_by_position(const Sequence&, std::int64_t i, std::int64_t j) const;
  bool given(regard_role role) const { return arguments_.tensor[role].data != nullptr; }
  double read(regard_role, std::int64_t batch, std::int64_t head, std::int64_t row,
              std::int64_t column) const;
  /// A number of each sequence.
  std::int64_t integer(regard_role, std::int64_t batch) const;
  void find_keys(std::int64_t batch, Sequence&) const;
  Matrix keys(regard_role, std::int64_t batch, std::int64_t kv_head) const;
  /// Whether key j lies left of the window of every query, so that neither it nor its place is read.
  bool left_of_all_windows(const Sequence&, std::int64_t j) const;
  double descale_q(std::int64_t batch, std::int64_t kv_head) const;
  /// The factor of one number of K or V.
  double given_factor(regard_role, std::int64_t batch, std::int64_t kv_head, const Place&,
                      std::int64_t column) const;

  const Problem& problem_;
  const regard_arguments& arguments_;
  const CallFunctions functions_;
  const Places places_;
  const NewTokens new_tokens_;
  const Rotation rotation_;
  Index index_[REGARD_ROLE_COUNT];
  bool all_equal_;
  std::vector<Sequence> sequences_;  ///< if all are equal: only the first
  std::uint64_t seed_ = 0, offset_ = 0;
  int keep_ = 255;
};

}  // namespace regard::oracle
