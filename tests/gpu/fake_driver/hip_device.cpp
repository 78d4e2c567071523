// HIP's devices, memory and streams.
#include <cstdio>
#include <cstring>
#include <utility>

#include "device/hip/driver.h"
#include "gpu/fake_driver/host_device.h"

using namespace regard::hip;  // NOLINT: its types are what this library's functions take
using regard::test::current_device;
using regard::test::FakeDriver;
using regard::test::Make;
using regard::test::owner_of;

namespace {

constexpr Code invalid_value = 1, invalid_device = 101;

FakeDriver& state = *regard::test::fake_driver();
thread_local Code last_error = success;

/// As the runtime does, keeps a failure for hipGetLastError.
Code done(Code code) {
  if (code != success) last_error = code;
  return code;
}

Code allocate(void** memory, std::size_t bytes) {
  *memory = regard::test::allocate(Make::hip, current_device().of_hip, bytes);
  return done(*memory == nullptr ? out_of_memory : success);
}

Code release(void* memory) {
  return done(regard::test::release(memory) ? success : invalid_value);
}

}  // namespace

int regard::test::fake_last_error() {
  return last_error;
}

#pragma GCC visibility push(default)
extern "C" {

Code hipInit(unsigned) {
  return success;
}
const char* hipGetErrorName(Code code) {
  return code == out_of_memory ? "hipErrorOutOfMemory" : "hipErrorFake";
}
const char* hipGetErrorString(Code code) {
  return code == out_of_memory ? "out of memory" : state.error_text;
}
Code hipGetLastError() {
  return std::exchange(last_error, success);
}
Code hipGetDeviceCount(int* count) {
  *count = FakeDriver::devices;
  return success;
}
Code hipGetDevicePropertiesR0600(DeviceProperties* properties, int device) {
  constexpr std::size_t size_in_rocm = 1472;
  std::memset(properties, 0, size_in_rocm);
  std::snprintf(properties->name, sizeof properties->name, device == 0 ? "Fake Instinct" : "Fake Radeon");
  std::snprintf(properties->chip, sizeof properties->chip, "%s", state.chip[device]);
  properties->multiprocessors = state.multiprocessors[device];
  properties->shared_memory = std::strncmp(state.chip[device], "gfx950", 6) == 0 ? 163840 : 65536;
  return success;
}
Code hipGetDevice(int* device) {
  *device = current_device().of_hip;
  return success;
}
Code hipSetDevice(int device) {
  if (device < 0 || device >= FakeDriver::devices) return done(invalid_device);
  current_device().of_hip = device;
  return success;
}
Code hipStreamIsCapturing(Stream, int* capturing) {
  *capturing = state.capturing;
  return success;
}
Code hipStreamSynchronize(Stream stream) {
  regard::test::record_wait(stream);
  return success;
}
Code hipPointerGetAttributes(PointerAttributes* found, const void* memory) {
  ++state.asked;
  const int device = owner_of(Make::hip, memory);
  *found = {};
  if (device < 0) return done(invalid_value);
  found->type = memory_of_device;
  found->ordinal = device;
  return success;
}
Code hipMalloc(void** memory, std::size_t bytes) {
  return allocate(memory, bytes);
}
Code hipFree(void* memory) {
  return release(memory);
}
Code hipMallocAsync(void** memory, std::size_t bytes, Stream) {
  return allocate(memory, bytes);
}
Code hipFreeAsync(void* memory, Stream) {
  return release(memory);
}
Code hipMemcpy(void* to, const void* from, std::size_t bytes, CopyKind) {
  std::memcpy(to, from, bytes);
  return success;
}
Code hipMemsetAsync(void* memory, int value, std::size_t bytes, Stream) {
  ++state.fills;
  if (state.fill_code != success) return done(state.fill_code);
  std::memset(memory, value, bytes);
  return success;
}

}  // extern "C"
#pragma GCC visibility pop
