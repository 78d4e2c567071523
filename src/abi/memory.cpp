// Memory of a target, for callers that have no allocator for it.
#include <cstring>

#include "abi/handles.h"
#include "engine/machine.h"
#include "engine/memory.h"

using namespace regard;         // NOLINT: the C ABI's implementation
using namespace regard::c_api;  // NOLINT

namespace {

/// The device that a target's memory is on: null for the host.
Result<const gpu::Device*> device_of_target(const char* target) {
  if (target == nullptr || *target == '\0') return nullptr;
  if (const gpu::Backend* backend = gpu::find_backend(target)) return gpu::current_device(*backend);
  const Result<const Target*> found = find_target(target);
  if (!found) return tl::unexpected(found.error());
  if ((*found)->on_cpu()) return nullptr;
  if (Status status = runnable(**found); !status) return tl::unexpected(status.error());
  return gpu::current_device(backend_of(**found));
}

regard_status report_of(const Status& status) {
  return status ? REGARD_OK : report(status.error());
}

}  // namespace

regard_status regard_memory_allocate(const char* target, int64_t bytes, void** memory) {
  return guarded([&] {
    if (memory == nullptr) return report(null_argument("memory").value());
    if (bytes < 0) return report(REGARD_INVALID, "a size in bytes is not negative");
    const Result<const gpu::Device*> device = device_of_target(target);
    if (!device) return report(device.error());
    if (*device == nullptr) {
      Result<AlignedMemory> made = aligned_memory(bytes);
      if (!made) return report(made.error());
      *memory = made->release();
      return REGARD_OK;
    }
    const Result<void*> made = gpu::allocate(**device, bytes);
    if (!made) return report(made.error());
    *memory = *made;
    return REGARD_OK;
  });
}

regard_status regard_memory_free(void* memory) {
  return guarded([&] {
    if (memory == nullptr) return REGARD_OK;
    if (const gpu::Device* device = gpu::device_holding(memory))
      return report_of(gpu::release(*device, memory));
    std::free(memory);
    return REGARD_OK;
  });
}

regard_status regard_memory_copy(void* to, const void* from, int64_t bytes) {
  return guarded([&] {
    if (bytes < 0) return report(REGARD_INVALID, "a size in bytes is not negative");
    if (bytes == 0) return REGARD_OK;
    if (to == nullptr) return report(null_argument("to").value());
    if (from == nullptr) return report(null_argument("from").value());
    const gpu::Device* device = gpu::device_holding(to);
    if (device == nullptr) device = gpu::device_holding(from);
    if (device != nullptr) return report_of(gpu::copy(*device, to, from, bytes));
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return REGARD_OK;
  });
}

regard_status regard_memory_wait(const void* memory, void* stream) {
  return guarded([&] {
    const gpu::Device* device = gpu::device_holding(memory);
    return device == nullptr ? REGARD_OK : report_of(gpu::wait(*device, static_cast<gpu::Stream>(stream)));
  });
}

regard_status regard_stream_wait(const char* target, void* stream) {
  return guarded([&] {
    const Result<const gpu::Device*> device = device_of_target(target);
    if (!device) return report(device.error());
    if (*device == nullptr) return REGARD_OK;
    return report_of(gpu::wait(**device, static_cast<gpu::Stream>(stream)));
  });
}
