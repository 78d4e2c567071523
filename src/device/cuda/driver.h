// The CUDA driver's library, opened at run time: the few functions that are used, declared here, so that
// building needs no CUDA header and running needs no driver.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "device/gpu.h"

namespace regard::cuda {

// Types and numbers of the driver's interface (cuda.h, version 12 and later); handles are opaque.
using Code = int;
using Context = struct ContextOfDriver*;
using ModuleHandle = struct ModuleOfDriver*;
using gpu::Function;
using gpu::Stream;
using gpu::TensorMap;
using Address = std::uint64_t;

constexpr Code success = 0, out_of_memory = 2, not_initialized = 3, no_device = 100;

enum DeviceAttribute : int {
  attribute_multiprocessors = 16,
  attribute_major = 75,
  attribute_minor = 76,
  attribute_shared_memory = 97,  ///< the most that one block can request
};
enum FunctionAttribute : int { attribute_static_shared = 1, attribute_dynamic_shared = 8 };
enum PointerAttribute : int { attribute_memory_type = 2, attribute_ordinal = 9 };
constexpr unsigned memory_unknown = 0, memory_of_host = 1;
enum LaunchAttribute : int { attribute_cluster = 4, attribute_overlap = 6 };

struct LaunchValue {
  LaunchAttribute id{};
  int padding = 0;
  union {
    char bytes[64] = {};
    unsigned cluster[3];
    int overlap;
  };
};

struct LaunchConfiguration {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Stream stream;
  LaunchValue* attributes;
  unsigned attribute_count;
};

enum TensorMapType : int { map_uint8 = 0, map_fp16 = 6, map_bf16 = 9 };
enum TensorMapSwizzle : int { swizzle_128_bytes = 3 };
enum TensorMapPromotion : int { promote_128_bytes = 2 };

// X(name, symbol, parameters)
#define REGARD_CUDA_FUNCTIONS(X)                                                                \
  X(init, cuInit, (unsigned))                                                                   \
  X(error_name, cuGetErrorName, (Code, const char**))                                           \
  X(error_text, cuGetErrorString, (Code, const char**))                                         \
  X(version, cuDriverGetVersion, (int*))                                                        \
  X(device_count, cuDeviceGetCount, (int*))                                                     \
  X(device_name, cuDeviceGetName, (char*, int, int))                                            \
  X(device_attribute, cuDeviceGetAttribute, (int*, DeviceAttribute, int))                       \
  X(retain_context, cuDevicePrimaryCtxRetain, (Context*, int))                                  \
  X(current_context, cuCtxGetCurrent, (Context*))                                               \
  X(current_device, cuCtxGetDevice, (int*))                                                     \
  X(push_context, cuCtxPushCurrent_v2, (Context))                                               \
  X(pop_context, cuCtxPopCurrent_v2, (Context*))                                                \
  X(load_module, cuModuleLoadData, (ModuleHandle*, const void*))                                \
  X(unload_module, cuModuleUnload, (ModuleHandle))                                              \
  X(module_function, cuModuleGetFunction, (Function*, ModuleHandle, const char*))               \
  X(function_attribute, cuFuncGetAttribute, (int*, FunctionAttribute, Function))                \
  X(set_function_attribute, cuFuncSetAttribute, (Function, FunctionAttribute, int))             \
  X(launch, cuLaunchKernelEx, (const LaunchConfiguration*, Function, void**, void**))           \
  X(is_capturing, cuStreamIsCapturing, (Stream, int*))                                          \
  X(stream_number, cuStreamGetId, (Stream, unsigned long long*))                                \
  X(synchronize, cuStreamSynchronize, (Stream))                                                 \
  X(pointer_attributes, cuPointerGetAttributes, (unsigned, PointerAttribute*, void**, Address)) \
  X(allocate, cuMemAlloc_v2, (Address*, std::size_t))                                           \
  X(release, cuMemFree_v2, (Address))                                                           \
  X(allocate_ordered, cuMemAllocAsync, (Address*, std::size_t, Stream))                         \
  X(release_ordered, cuMemFreeAsync, (Address, Stream))                                         \
  X(copy, cuMemcpy, (Address, Address, std::size_t))                                            \
  X(fill_ordered, cuMemsetD8Async, (Address, unsigned char, std::size_t, Stream))               \
  X(encode_map, cuTensorMapEncodeTiled,                                                         \
    (TensorMap*, TensorMapType, unsigned, void*, const std::uint64_t*, const std::uint64_t*,    \
     const std::uint32_t*, const std::uint32_t*, int, TensorMapSwizzle, TensorMapPromotion, int))

struct Driver {
#define REGARD_MEMBER(name, symbol, parameters) Code(*name) parameters = nullptr;
  REGARD_CUDA_FUNCTIONS(REGARD_MEMBER)
#undef REGARD_MEMBER
};

/// Opened and initialised at the first call; the error says what is missing.
const Result<Driver>& driver();

/// An error unless `code` is success: "CUDA could not <what>: <the driver's words>".
Status check(Code, const char* what);

}  // namespace regard::cuda
