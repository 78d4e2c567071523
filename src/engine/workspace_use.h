// Calls that run at the same time need a workspace each. A shared one silently gives wrong results, so debug
// builds and REGARD_VERIFY check for it.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace regard {

/// The use of a workspace from here to the end of the scope, on a CPU target: on a GPU the work continues
/// after the call. Uses are linked in place, as a run allocates nothing.
class WorkspaceUse {
 public:
  WorkspaceUse(const void* workspace, std::int64_t bytes);
  ~WorkspaceUse();
  WorkspaceUse(const WorkspaceUse&) = delete;
  WorkspaceUse& operator=(const WorkspaceUse&) = delete;

  /// An error where another call uses some of the same memory.
  const Status& status() const { return status_; }

 private:
  std::uintptr_t first_, end_;
  WorkspaceUse *before_ = nullptr, *next_ = nullptr;
  bool noted_ = false;
  Status status_;
};

}  // namespace regard
