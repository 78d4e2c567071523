// An open descriptor that is this library's own.
#pragma once

#include <utility>

namespace regard {

/// The same open file under a number above 2. A host program may run with its standard streams closed; what
/// is opened next then gets their numbers, and what anybody prints, log lines too, would land in it. For
/// files that have just been opened: they are at their beginning afterwards, and without what was printed
/// meanwhile. errno stays when there is none (-1), and says why when no other number could be had.
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
  /// For who closes it himself, as a directory stream does.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

}  // namespace regard
