// Devices and memory of the emulated HIP runtime: the memory is the host's.
#include "emulator/hip/host_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace emulator::hip {
namespace {

thread_local std::string error_text;
thread_local Code last_error = success;
thread_local int current = 0;

std::mutex mutex;
std::map<std::uintptr_t, std::pair<std::size_t, int>> blocks;  // start: size, device

Code allocate(void** memory, std::size_t bytes) {
  if (bytes > std::size_t{1} << 40) return fail(out_of_memory, "out of memory");
  *memory = std::aligned_alloc(256, (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256);
  const std::lock_guard lock(mutex);
  blocks[reinterpret_cast<std::uintptr_t>(*memory)] = {bytes, current};
  return success;
}

Code release(void* memory) {
  if (memory == nullptr) return success;
  const std::lock_guard lock(mutex);
  if (blocks.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0)
    return fail(invalid_value, "memory is freed that was not allocated");
  std::free(memory);
  return success;
}

/// The device of an address, or -1.
int owner_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(mutex);
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return -1;
  const auto& [start, block] = *--next;
  return address < start + std::max<std::size_t>(block.first, 1) ? block.second : -1;
}

/// hipDeviceProp_tR0600: what is written of it, at its place.
struct Properties {
  char name[256];
  char not_written_1[32];
  std::size_t memory, lds_bytes;
  int registers, wave;
  char not_written_2[76];
  int multiprocessors;
  char not_written_3[768];
  char chip[256];
  char not_written_4[56];
};
static_assert(offsetof(Properties, lds_bytes) == 296);
static_assert(offsetof(Properties, multiprocessors) == 388);
static_assert(offsetof(Properties, chip) == 1160);
static_assert(sizeof(Properties) == 1472);

}  // namespace

Code fail(Code code, const std::string& text) {
  error_text = text;
  last_error = code;
  return code;
}

const Chip& current_chip() {
  const char* const chip = std::getenv("EMULATED_CHIP");
  if (current > 0) return chip_named("gfx90a");
  return chip_named(chip == nullptr ? "gfx942" : chip);
}

}  // namespace emulator::hip

using namespace emulator::hip;  // NOLINT: its types are what this library's functions take

#pragma GCC visibility push(default)
extern "C" {

Code hipInit(unsigned) {
  return success;
}
Code hipDriverGetVersion(int* version) {
  *version = 60443483;
  return success;
}
Code hipRuntimeGetVersion(int* version) {
  return hipDriverGetVersion(version);
}
const char* hipGetErrorName(Code code) {
  switch (code) {
    case success:
      return "hipSuccess";
    case out_of_memory:
      return "hipErrorOutOfMemory";
    default:
      return "hipErrorEmulated";
  }
}
const char* hipGetErrorString(Code code) {
  return code == success ? "no error" : error_text.c_str();
}
Code hipGetLastError() {
  return std::exchange(last_error, success);
}

Code hipGetDeviceCount(int* count) {
  *count = devices;
  return success;
}
/// Multiprocessors are few, so that a small problem takes more than one turn of a persistent block.
Code hipGetDevicePropertiesR0600(Properties* properties, int device) {
  if (device < 0 || device >= devices) return fail(101, "there is no such device");
  const int former = std::exchange(current, device);
  const Chip& chip = current_chip();
  current = former;
  *properties = {};
  std::strcpy(properties->name, device == 0 ? "Emulated Instinct" : "Second Emulated Instinct");
  const std::string full_name = std::string(chip.name) + (chip.wave == 64 ? ":sramecc+:xnack-" : "");
  std::strcpy(properties->chip, full_name.c_str());
  properties->memory = std::size_t{1} << 36;
  properties->lds_bytes = chip.lds_bytes;
  properties->wave = static_cast<int>(chip.wave);
  properties->multiprocessors = device == 0 ? 6 : 5;
  return success;
}
Code hipGetDevice(int* device) {
  *device = current;
  return success;
}
Code hipSetDevice(int device) {
  if (device < 0 || device >= devices) return fail(101, "there is no such device");
  current = device;
  return success;
}

Code hipStreamIsCapturing(void*, int* capturing) {
  *capturing = 0;
  return success;
}
Code hipStreamSynchronize(void*) {
  return success;
}
Code hipDeviceSynchronize() {
  return success;
}

struct PointerAttributes {
  int type, device;
  void *on_device, *on_host;
  int managed;
  unsigned flags;
};
Code hipPointerGetAttributes(PointerAttributes* attributes, const void* memory) {
  const int device = owner_of(memory);
  *attributes = {};
  attributes->type = device < 0 ? 0 : 2;
  attributes->device = device < 0 ? -2 : device;
  attributes->on_device = device < 0 ? nullptr : const_cast<void*>(memory);
  return success;
}

Code hipMalloc(void** memory, std::size_t bytes) {
  return allocate(memory, bytes);
}
Code hipFree(void* memory) {
  return release(memory);
}
Code hipMallocAsync(void** memory, std::size_t bytes, void*) {
  return allocate(memory, bytes);
}
Code hipFreeAsync(void* memory, void*) {
  return release(memory);
}
Code hipMemcpy(void* to, const void* from, std::size_t bytes, int) {
  std::memcpy(to, from, bytes);
  return success;
}
Code hipMemsetAsync(void* memory, int value, std::size_t bytes, void*) {
  std::memset(memory, value, bytes);
  return success;
}
Code hipMemsetD8Async(void* memory, unsigned char value, std::size_t bytes, void*) {
  return hipMemsetAsync(memory, value, bytes, nullptr);
}

}  // extern "C"
#pragma GCC visibility pop
