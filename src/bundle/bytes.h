// Where a bundle's bytes are: in a file, which is read where it is needed and never mapped (a mapped file
// that somebody cuts ends the program), or in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "base/regular_file.h"
#include "base/result.h"

namespace regard::bundle {

class Bytes {
 public:
  explicit Bytes(RegularFile file) : place_(std::move(file)) {}
  explicit Bytes(std::span<const std::byte> memory) : place_(memory) {}

  /// As many as there were when it was opened.
  std::uint64_t count() const;
  /// Fills `part` with those from `offset` on; an error where there are fewer.
  Status read_at(std::uint64_t offset, std::span<std::byte> part) const;

 private:
  std::variant<RegularFile, std::span<const std::byte>> place_;
};

}  // namespace regard::bundle
