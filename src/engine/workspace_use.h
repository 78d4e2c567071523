// Calls that run at the same time need a workspace each. One that two of them share gives wrong results
// without a word, so debug builds and REGARD_VERIFY look out for it.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace regard {

/// The use of a workspace from here to the end of the scope, on a CPU target: on a GPU the work goes on after
/// the call. Uses are linked to each other where they lie, as a run allocates nothing.
class WorkspaceUse {
 public:
  WorkspaceUse(const void* workspace, std::int64_t bytes);
  ~WorkspaceUse();
  WorkspaceUse(const WorkspaceUse&) = delete;
  WorkspaceUse& operator=(const WorkspaceUse&) = delete;

  /// An error where another call uses some of it.
  const Status& status() const { return status_; }

 private:
  std::uintptr_t first_, end_;
  WorkspaceUse *before_ = nullptr, *next_ = nullptr;
  bool noted_ = false;
  Status status_;
};

}  // namespace regard
