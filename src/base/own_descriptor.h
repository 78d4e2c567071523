// What the kernel keeps for an open descriptor (a lock, a pipe) ends when the last copy of it is closed.
// A forked child has copies of all, so a child that lives on would keep what its dead parent held.
#pragma once

#include "base/descriptor.h"

namespace regard {

/// A descriptor of this process alone: each forked child closes its copy at once.
class OwnDescriptor {
 public:
  explicit OwnDescriptor(int number = -1);
  OwnDescriptor(OwnDescriptor&& other) noexcept : file_(std::move(other.file_)), born_(other.born_) {}
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(born_, other.born_);
    return *this;
  }
  ~OwnDescriptor();

  /// -1 when there is none, also in a child forked since.
  int number() const;
  explicit operator bool() const { return number() >= 0; }

 private:
  Descriptor file_;
  unsigned born_;  // fork_count() at that time
};

}  // namespace regard
