// File descriptors that belong to this library.
#pragma once

#include <utility>

namespace regard {

/// Moves an open file to a descriptor above 2. A host program may run with its standard streams closed; the
/// next files opened then get their numbers, and anything printed, including log lines, would end up in them.
/// For files that have just been opened: afterwards they are at their beginning, and without what was printed
/// meanwhile. errno is kept for a descriptor of -1, and says why when no other number was available.
int above_standard_streams(int descriptor);

/// Closed with the object; never 0, 1 or 2.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(above_standard_streams(number)) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  /// For callers that close it themselves, as a directory stream does.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// A descriptor of this process alone: each forked child closes its copy at once. What the kernel keeps for
/// an open descriptor (a lock, a pipe) ends when the last copy of it is closed, so a surviving child would
/// keep what its dead parent held.
class ForkPrivateFd {
 public:
  explicit ForkPrivateFd(int number = -1);
  ForkPrivateFd(ForkPrivateFd&& other) noexcept : file_(std::move(other.file_)), born_(other.born_) {}
  ForkPrivateFd& operator=(ForkPrivateFd&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(born_, other.born_);
    return *this;
  }
  ~ForkPrivateFd();

  /// -1 when there is none, also in a child forked since then.
  int number() const;
  explicit operator bool() const { return number() >= 0; }

 private:
  Descriptor file_;
  unsigned born_;  // fork_count() at that time
};

}  // namespace regard
