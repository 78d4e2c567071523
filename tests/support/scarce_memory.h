// Memory that runs out when a test says so.
#pragma once

#include <cstddef>

namespace regard::test {

/// Whether this build can do so: sanitizers have `new` for themselves.
extern const bool can_be_scarce;

/// While it lives, `new` gives nobody in this process this many bytes or more at once.
class ScarceMemory {
 public:
  explicit ScarceMemory(std::size_t bytes);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
};

}  // namespace regard::test
