// Memory that ends at a page without access: an access one byte too far is a fault, and the fault becomes a
// sentence.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace regard::test {

/// Which end of the memory is directly next to a page without access. The other end has one too, but the
/// rest of a page may be in between.
enum class Guarded { no, at_start, at_end };

class GuardedMemory {
 public:
  /// `name` is the name in a fault's sentence.
  GuardedMemory(std::string name, std::int64_t bytes, Guarded edge);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::uint8_t* data() const { return data_; }
  /// All that can be read and written: the memory and the rest of its pages.
  std::span<std::uint8_t> room() const { return room_; }
  /// "byte 280 of k, which has 280 bytes" if the address is in the pages around it, otherwise empty.
  std::string place_of(const std::uint8_t* address) const;

 private:
  std::string name_;
  std::int64_t bytes_;
  std::uint8_t* data_;
  std::span<std::uint8_t> room_, mapped_;
};

/// Runs `body` in this thread. Returns an empty string, or what it did to which memory; in that case it did
/// not run to its end, so it must not hold anything that a jump out of it would leave behind.
std::string fault_of(const std::function<void()>& body);

}  // namespace regard::test
