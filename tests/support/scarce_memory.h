// Memory that runs out when a test says so.
#pragma once

#include <cstddef>

namespace regard::test {

/// Whether this build can do so: sanitizers replace `new` themselves.
extern const bool can_be_scarce;

/// During its lifetime, `new` fails in this process for requests of this many bytes or more.
class ScarceMemory {
 public:
  explicit ScarceMemory(std::size_t bytes);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
};

}  // namespace regard::test
