#include "gpu/fake_driver/host_device.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace regard::test {
namespace {

FakeDriver state;
std::mutex mutex;
std::string waits;

struct Block {
  std::size_t bytes;
  Make make;
  int device;
};
std::map<const char*, Block> blocks;  // by where they start

}  // namespace

void* allocate(Make make, int device, std::size_t bytes) {
  if (static_cast<long long>(bytes) > state.most_bytes) return nullptr;
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  const std::lock_guard lock(mutex);
  blocks[static_cast<const char*>(memory)] = {bytes, make, device};
  ++state.held;
  return memory;
}

bool release(void* memory) {
  const std::lock_guard lock(mutex);
  if (blocks.erase(static_cast<const char*>(memory)) == 0) return false;
  --state.held;
  std::free(memory);
  return true;
}

int owner_of(Make make, const void* memory) {
  const std::lock_guard lock(mutex);
  const auto* const address = static_cast<const char*>(memory);
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return -1;
  const auto& [start, block] = *--next;
  const bool inside = address < start + std::max<std::size_t>(block.bytes, 1);
  return inside && block.make == make ? block.device : -1;
}

CurrentDevice& current_device() {
  thread_local CurrentDevice current;
  return current;
}

void record_wait(gpu::Stream stream) {
  const std::lock_guard lock(mutex);
  if (!waits.empty()) waits += ' ';
  waits +=
      std::to_string(reinterpret_cast<std::uintptr_t>(stream)) + "@" + std::to_string(state.launches.load());
}

FakeDriver* fake_driver() {
  return &state;
}

void fake_use(int device) {
  CurrentDevice& current = current_device();
  current.of_cuda.clear();
  if (device >= 0) current.of_cuda.push_back(device);
  current.of_hip = std::max(device, 0);
}

const char* fake_waits() {
  static std::string printed;
  const std::lock_guard lock(mutex);
  printed = std::exchange(waits, {});
  return printed.c_str();
}

}  // namespace regard::test
