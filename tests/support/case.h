// A problem with memory: its input tensors, filled with random numbers, and its output tensors, poisoned and
// guarded, so that a test sees what a kernel left out and what it wrote out of bounds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/drawn_cache.h"
#include "oracle/oracle.h"
#include "problem/problem.h"
#include "problem/tensors.h"
#include "regard/regard.h"
#include "support/fill.h"
#include "support/guarded_memory.h"

namespace regard::test {

/// Numbers that are not random: functions of the row and column of an element of Q, K, V, dO, bias or sink
/// (a sink has no row and column). Absent: random numbers.
struct Numbers {
  const char* name;
  std::optional<double> (*of)(const Problem&, regard_role, std::int64_t row, std::int64_t column);
};

struct CaseOptions {
  std::uint64_t seed = 1;
  const Numbers* numbers = nullptr;
  double q_scale = 1;  ///< Q is this many times a standard normal number: large factors give huge logits
  bool v_rectified = false;  ///< negative numbers of V are 0
  double bias_offset = 0;    ///< added to every bias: -30000 makes all logits hugely negative
  double padding = 0;        ///< bias of the first `padded_keys` keys, and of all keys in rows 7, 15, ...
  std::int64_t padded_keys = 0;
  double sink_offset = 0;         ///< added to every learned sink
  std::int64_t nan_row = -1;      ///< this row of Q is NaN, in every sequence or, packed, of all tokens
  std::int64_t nan_key = -1;      ///< the same for K
  bool nan_behind = false;        ///< Q, K, V and dO are NaN past each sequence's logical length
  bool padded_rows = false;       ///< rows of all tensors have gaps, which are filled with NaN
  bool broadcast = false;         ///< ranges and bits have size 1 in their leading dimensions
  bool only_lengths_k = false;    ///< omits the optional lengths_q
  bool far = false;               ///< heads and sequences are 5 GiB apart; the memory between is untouched
  Guarded guarded = Guarded::no;  ///< every tensor has exactly its own bytes next to a page without access
  bool no_cache_index = false;    ///< omits the optional cache_index
  bool side_by_side = false;      ///< rows of K and V leave room for those of the other one between them
  bool forward_inputs = true;     ///< false: O and LSE of a backward problem stay NaN, for the test to fill
};

class Case {
 public:
  explicit Case(const std::string& text, const CaseOptions& options = {});

  const Problem& problem() const { return problem_; }
  const regard_arguments& arguments() const { return arguments_; }
  regard_arguments& arguments() { return arguments_; }
  /// What to print when a test fails: the problem text, and how the numbers were made.
  std::string description() const;

  double get(regard_role, std::int64_t flat_index) const;
  void set(regard_role, std::int64_t flat_index, double value);
  std::int64_t count(regard_role) const;  ///< elements in the logical shape
  /// The bytes of all elements, for tests of bit-identity.
  std::vector<std::uint8_t> bytes(regard_role) const;

  /// The whole memory of a role, guards and gaps included; its tensor points into it. Empty: not used.
  std::span<std::uint8_t> memory(regard_role role) { return buffers_[role].memory; }

  /// Fills the outputs with NaN again; what a call changes in place becomes what it was before.
  void poison_outputs();
  /// Computes the inputs of backward from a forward pass: the oracle's O and LSE, rounded to their types.
  void compute_forward_inputs(int threads = 1);

  /// Runs nothing: checks what a kernel left in the outputs. Returns an empty string if they are right,
  /// otherwise sentences. `sampled`: NaN in `expected` may also mean that a number was not computed, and is
  /// not checked.
  std::string mistakes(const oracle::Outputs& expected, bool sampled = false) const;
  /// The part of this check that needs no expected values: writes around the output.
  std::string broken_guards(regard_role) const;
  /// And for what a call changes in place: that all else of it is as before. `output`: what it must write;
  /// null: nothing.
  std::string changes_elsewhere(regard_role, const oracle::Output* output) const;

 private:
  struct Buffer {
    std::vector<std::uint8_t> memory;
    std::unique_ptr<GuardedMemory> guarded;  ///< in place of `memory`
    std::span<std::uint8_t> room;            ///< including the memory around the tensor; far: nothing
    std::int64_t bytes = 0;                  ///< the tensor's own
    std::vector<std::uint8_t> before;        ///< `room` before the call, where that changes it in place
  };

  void fill_all();
  /// Lengths, pages and the like of a KV cache; its rows that no call reads become NaN.
  void fill_cache();
  std::int64_t queries_of(std::int64_t batch) const;
  void put(regard_role, const auto& numbers);
  void set_empty_parts_to_nan();
  void set_rows_that_are_not_read_to_nan(const cli::DrawnCache&);
  void allocate(const TensorSpec&);
  /// Including the memory around it; far: only its elements.
  void poison_tensor(regard_role);
  void leave_room(regard_tensor&) const;
  void fill(const TensorSpec&);
  double integer_unit() const;
  std::vector<double> positions(Random&, std::int64_t count) const;
  std::vector<double> rope_table(const TensorSpec&) const;
  void fill_from_numbers(regard_role);
  void set_row_to_nan(regard_role, std::int64_t row);  ///< a negative one: none
  void set_rows_behind_sequences_to_nan();
  std::int64_t offset_of(regard_role, std::int64_t flat_index) const;
  /// function(flat index, offset) for all elements: by rows, because four divisions for each would be slow.
  template <class Function>
  void each_element(regard_role, Function function) const;

  Problem problem_;
  CaseOptions options_;
  regard_arguments arguments_ = REGARD_ARGUMENTS_INIT;
  std::array<Buffer, REGARD_ROLE_COUNT> buffers_;
};

}  // namespace regard::test
