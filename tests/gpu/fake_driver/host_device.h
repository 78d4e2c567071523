// What devices of both makes have here: memory on the host, the current device of a thread, and streams.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/fake_driver/fake_driver.h"

namespace regard::test {

enum class Make { cuda, hip };

/// Memory of a device, of at least one byte; null beyond FakeDriver::most_bytes.
void* allocate(Make, int device, std::size_t bytes);
/// Whether it was memory.
bool release(void*);
/// The make's device of an address, or -1.
int owner_of(Make, const void*);

struct CurrentDevice {
  std::vector<int> of_cuda;  ///< the stack of contexts
  int of_hip = 0;
};
CurrentDevice& current_device();

void record_wait(gpu::Stream);

}  // namespace regard::test
