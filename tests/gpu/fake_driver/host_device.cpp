// Devices, contexts and memory, and the parts of modules that all kernels share.
#include "gpu/fake_driver/fake_driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

using namespace regard::cuda;  // NOLINT: its types are what this library's functions take
using regard::test::FakeDriver;

namespace {

constexpr Code invalid_value = 1, invalid_context = 201;

FakeDriver state;
std::mutex mutex;
std::string waits;
std::map<Address, std::pair<std::size_t, int>> blocks;  // start: size, device
thread_local std::vector<Context> contexts;

Context context_of(int device) {
  return reinterpret_cast<Context>(static_cast<std::uintptr_t>(device + 1));
}
int device_of(Context context) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
}

/// The most shared memory that a block can request, by compute capability (CUDA's programming guide).
int shared_memory_of(int capability) {
  if (capability < 80) return 65536;
  if (capability == 80) return 166912;
  return capability == 90 || capability == 100 ? 232448 : 101376;
}

Code allocate(Address* memory, std::size_t bytes) {
  if (contexts.empty()) return invalid_context;
  if (static_cast<long long>(bytes) > state.most_bytes) return out_of_memory;
  *memory = reinterpret_cast<Address>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  const std::lock_guard lock(mutex);
  blocks[*memory] = {bytes, device_of(contexts.back())};
  ++state.held;
  return success;
}

Code release(Address memory) {
  const std::lock_guard lock(mutex);
  if (blocks.erase(memory) == 0) return invalid_value;
  --state.held;
  std::free(reinterpret_cast<void*>(memory));
  return success;
}

/// The device of an address, or -1.
int owner_of(Address memory) {
  const std::lock_guard lock(mutex);
  auto next = blocks.upper_bound(memory);
  if (next == blocks.begin()) return -1;
  const auto& [start, block] = *--next;
  return memory < start + std::max<std::size_t>(block.first, 1) ? block.second : -1;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

FakeDriver* fake_driver() {
  return &state;
}
void fake_use(int device) {
  contexts.clear();
  if (device >= 0) contexts.push_back(context_of(device));
}

Code cuInit(unsigned) {
  return success;
}
Code cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
Code cuGetErrorName(Code code, const char** name) {
  *name = code == out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return success;
}
Code cuGetErrorString(Code code, const char** text) {
  *text = code == out_of_memory ? "out of memory" : state.error_text;
  return success;
}
Code cuDeviceGetCount(int* count) {
  *count = FakeDriver::devices;
  return success;
}
Code cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), device == 0 ? "Fake Hopper" : "Fake Ampere");
  return success;
}
Code cuDeviceGetAttribute(int* value, DeviceAttribute attribute, int device) {
  switch (attribute) {
    case attribute_multiprocessors:
      *value = state.multiprocessors[device];
      return success;
    case attribute_major:
      *value = state.capability[device] / 10;
      return success;
    case attribute_minor:
      *value = state.capability[device] % 10;
      return success;
    case attribute_shared_memory:
      *value = shared_memory_of(state.capability[device]);
      return success;
  }
  return invalid_value;
}
Code cuDevicePrimaryCtxRetain(Context* context, int device) {
  *context = context_of(device);
  return success;
}
Code cuCtxGetCurrent(Context* context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return success;
}
Code cuCtxGetDevice(int* device) {
  if (contexts.empty()) return invalid_context;
  *device = device_of(contexts.back());
  return success;
}
Code cuCtxPushCurrent_v2(Context context) {
  contexts.push_back(context);
  ++state.pushed;
  return success;
}
Code cuCtxPopCurrent_v2(Context* context) {
  if (contexts.empty()) return invalid_context;
  *context = contexts.back();
  contexts.pop_back();
  ++state.popped;
  return success;
}
/// Each module has one kernel, with the module's handle.
Code cuModuleUnload(ModuleHandle) {
  return success;
}
Code cuModuleGetFunction(Function* function, ModuleHandle module, const char*) {
  *function = reinterpret_cast<Function>(module);
  return success;
}
Code cuStreamIsCapturing(Stream, int* capturing) {
  *capturing = state.capturing;
  return success;
}
Code cuStreamGetId(Stream stream, unsigned long long* number) {
  *number = reinterpret_cast<std::uintptr_t>(stream);
  return state.number_code;
}
Code cuStreamSynchronize(Stream stream) {
  const std::lock_guard lock(mutex);
  if (!waits.empty()) waits += ' ';
  waits +=
      std::to_string(reinterpret_cast<std::uintptr_t>(stream)) + "@" + std::to_string(state.launches.load());
  return success;
}
const char* fake_waits() {
  static std::string printed;
  const std::lock_guard lock(mutex);
  printed = std::exchange(waits, {});
  return printed.c_str();
}
Code cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values, Address memory) {
  ++state.asked;
  const int device = owner_of(memory);
  for (unsigned i = 0; i < count; ++i) {
    const int of_device = attributes[i] == attribute_ordinal ? device : 2;
    *static_cast<int*>(values[i]) = device < 0 ? 0 : of_device;
  }
  return success;
}
Code cuMemAlloc_v2(Address* memory, std::size_t bytes) {
  return allocate(memory, bytes);
}
Code cuMemFree_v2(Address memory) {
  return release(memory);
}
Code cuMemAllocAsync(Address* memory, std::size_t bytes, Stream) {
  return allocate(memory, bytes);
}
Code cuMemFreeAsync(Address memory, Stream) {
  return release(memory);
}
Code cuMemcpy(Address to, Address from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return success;
}
Code cuMemsetD8Async(Address memory, unsigned char value, std::size_t count, Stream) {
  ++state.fills;
  if (state.fill_code != success) return state.fill_code;
  std::memset(reinterpret_cast<void*>(memory), value, count);
  return success;
}
}  // extern "C"
#pragma GCC visibility pop
