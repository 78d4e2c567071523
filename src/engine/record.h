// REGARD_RECORD: the problems of a program, written to a file from which their kernels are built ahead of
// time (aot/record.h reads it).
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "plan/plan.h"

namespace regard {

/// Appends the problem of a new plan to the file of the setting, if there is one. A failure to write is one
/// warning, and never an error.
void record(const Plan&);

/// What one process writes into a record: each line once, and only if the file did not contain it when the
/// process first wrote. Any number of processes can write to one file.
class Recorder {
 public:
  void add(const std::string& path, std::string_view line);

 private:
  std::mutex mutex_;
  bool has_read_ = false;
  std::unordered_set<std::size_t>
      lines_;  ///< their hashes: a program with a million problems need not keep their texts
};

}  // namespace regard
