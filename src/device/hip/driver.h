// The HIP runtime's library, opened at run time: the few functions that are used, declared here, so that
// building needs no ROCm header and running needs no ROCm.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "device/gpu.h"

namespace regard::hip {

// Types and numbers of the runtime's interface (hip_runtime_api.h, ROCm 6 and later); handles are opaque.
using Code = int;
using ModuleHandle = struct ModuleOfRuntime*;
using gpu::Function;
using gpu::Stream;

constexpr Code success = 0, out_of_memory = 2, no_device = 100;

/// hipDeviceProp_tR0600: what is read of it, at its place, and room for more than the rest.
struct DeviceProperties {
  char name[256];
  char not_read_1[40];
  std::size_t shared_memory;  ///< of one block
  char not_read_2[84];
  int multiprocessors;
  char not_read_3[768];
  char chip[256];  ///< "gfx942:sramecc+:xnack-"
  char not_read_4[2680];
};
static_assert(offsetof(DeviceProperties, shared_memory) == 296);
static_assert(offsetof(DeviceProperties, multiprocessors) == 388);
static_assert(offsetof(DeviceProperties, chip) == 1160);

enum MemoryType : int { memory_unregistered = 0, memory_of_host = 1, memory_of_device = 2 };

struct PointerAttributes {
  MemoryType type;
  int ordinal;
  void* on_device;
  void* on_host;
  int managed;
  unsigned flags;
};

enum CopyKind : int { copy_any_direction = 4 };

// X(result, name, symbol, parameters)
#define REGARD_HIP_FUNCTIONS(X)                                                                      \
  X(Code, init, hipInit, (unsigned))                                                                 \
  X(const char*, error_name, hipGetErrorName, (Code))                                                \
  X(const char*, error_text, hipGetErrorString, (Code))                                              \
  X(Code, take_last_error, hipGetLastError, ())                                                      \
  X(Code, device_count, hipGetDeviceCount, (int*))                                                   \
  X(Code, device_properties, hipGetDevicePropertiesR0600, (DeviceProperties*, int))                  \
  X(Code, current_device, hipGetDevice, (int*))                                                      \
  X(Code, set_device, hipSetDevice, (int))                                                           \
  X(Code, load_module, hipModuleLoadData, (ModuleHandle*, const void*))                              \
  X(Code, unload_module, hipModuleUnload, (ModuleHandle))                                            \
  X(Code, module_function, hipModuleGetFunction, (Function*, ModuleHandle, const char*))             \
  X(Code, launch, hipModuleLaunchKernel,                                                             \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, \
     void**))                                                                                        \
  X(Code, is_capturing, hipStreamIsCapturing, (Stream, int*))                                        \
  X(Code, synchronize, hipStreamSynchronize, (Stream))                                               \
  X(Code, pointer_attributes, hipPointerGetAttributes, (PointerAttributes*, const void*))            \
  X(Code, allocate, hipMalloc, (void**, std::size_t))                                                \
  X(Code, release, hipFree, (void*))                                                                 \
  X(Code, allocate_ordered, hipMallocAsync, (void**, std::size_t, Stream))                           \
  X(Code, release_ordered, hipFreeAsync, (void*, Stream))                                            \
  X(Code, copy, hipMemcpy, (void*, const void*, std::size_t, CopyKind))                              \
  X(Code, fill_ordered, hipMemsetAsync, (void*, int, std::size_t, Stream))

struct Driver {
#define REGARD_MEMBER(result, name, symbol, parameters) result(*name) parameters = nullptr;
  REGARD_HIP_FUNCTIONS(REGARD_MEMBER)
#undef REGARD_MEMBER
};

/// Opened and initialised at the first call; the error says what is missing.
const Result<Driver>& driver();

/// Whether `code` is success. The runtime keeps a thread's last failure for whoever asks next, which would be
/// the caller's program; a failure that is reported or expected here is taken away from there.
bool succeeded(Code);

/// An error unless `code` is success: "HIP could not <what>: <the runtime's words>".
Status check(Code, const char* what);

}  // namespace regard::hip
