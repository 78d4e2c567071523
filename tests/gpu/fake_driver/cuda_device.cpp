// CUDA's devices, contexts, memory and streams, and the parts of modules that all kernels share.
#include <cstdio>
#include <cstring>
#include <vector>

#include "device/cuda/driver.h"
#include "gpu/fake_driver/host_device.h"

using namespace regard::cuda;  // NOLINT: its types are what this library's functions take
using regard::test::FakeDriver;
using regard::test::Make;

namespace {

constexpr Code invalid_value = 1, invalid_context = 201;

FakeDriver& state = *regard::test::fake_driver();

std::vector<int>& contexts() {
  return regard::test::current_device().of_cuda;
}
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
  if (contexts().empty()) return invalid_context;
  void* const block = regard::test::allocate(Make::cuda, contexts().back(), bytes);
  *memory = reinterpret_cast<Address>(block);
  return block == nullptr ? out_of_memory : success;
}

Code release(Address memory) {
  return regard::test::release(reinterpret_cast<void*>(memory)) ? success : invalid_value;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

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
  *context = contexts().empty() ? nullptr : context_of(contexts().back());
  return success;
}
Code cuCtxGetDevice(int* device) {
  if (contexts().empty()) return invalid_context;
  *device = contexts().back();
  return success;
}
Code cuCtxPushCurrent_v2(Context context) {
  contexts().push_back(device_of(context));
  ++state.pushed;
  return success;
}
Code cuCtxPopCurrent_v2(Context* context) {
  if (contexts().empty()) return invalid_context;
  *context = context_of(contexts().back());
  contexts().pop_back();
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
  regard::test::record_wait(stream);
  return success;
}
Code cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values, Address memory) {
  ++state.asked;
  const int device = regard::test::owner_of(Make::cuda, reinterpret_cast<const void*>(memory));
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
