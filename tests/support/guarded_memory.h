// Memory that ends where a page without access begins: a byte too far is a fault, and the fault a sentence.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace regard::test {

/// Which end of the memory has the page without access right beside it. The other end has one too, but the
/// rest of a page may lie between.
enum class Guarded { no, at_start, at_end };

class GuardedMemory {
 public:
  /// `name` is what a fault's sentence calls it.
  GuardedMemory(std::string name, std::int64_t bytes, Guarded edge);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::uint8_t* data() const { return data_; }
  /// All that can be read and written: the memory and the rest of its pages.
  std::span<std::uint8_t> room() const { return room_; }
  /// "byte 280 of k, which has 280 bytes" when the address lies in the pages around it, or else empty.
  std::string place_of(const std::uint8_t* address) const;

 private:
  std::string name_;
  std::int64_t bytes_;
  std::uint8_t* data_;
  std::span<std::uint8_t> room_, mapped_;
};

/// Runs it in this thread. Empty, or what it did to which memory, and then it did not run to its end: it must
/// hold nothing that a jump out of it would leave behind.
std::string fault_of(const std::function<void()>& body);

}  // namespace regard::test
