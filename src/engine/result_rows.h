// Which elements of a call's outputs have results: those past a sequence's end are never written.
#pragma once

#include <vector>

#include "engine/elements.h"
#include "oracle/inputs.h"

namespace regard {

class ResultRows {
 public:
  /// Reads offsets and lengths, which must be right: tensors are in host memory.
  ResultRows(const Problem&, const regard_arguments&);

  /// Whether the element of an output must be written. It need not be in tensors that a call changes in part,
  /// nor, where sequences differ in length, in tensors with a column for each key.
  bool have(regard_role, int rank, const ElementIndex& at) const;

 private:
  const bool packed_;
  const oracle::Inputs inputs_;
  const std::int64_t sq_, sk_;
  std::vector<char> queries_, keys_;  ///< of all sequences, one after another
};

}  // namespace regard
