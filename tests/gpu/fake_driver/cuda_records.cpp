// CUDA's tensor maps, and its kernels, which compute nothing.
#include "device/cuda/driver.h"
#include "gpu/fake_driver/fake_driver.h"

using namespace regard::cuda;  // NOLINT: its types are what this library's functions take
using regard::test::FakeDriver;

namespace {

constexpr Code invalid_value = 1;

FakeDriver& state = *regard::test::fake_driver();

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Code cuCtxGetDevice(int*);

Code cuModuleLoadData(ModuleHandle* module, const void*) {
  int device = 0;
  if (const Code code = cuCtxGetDevice(&device); code != success) return code;
  *module = reinterpret_cast<ModuleHandle>(1 + ++state.loads[device]);
  return success;
}
Code cuFuncGetAttribute(int* value, FunctionAttribute, Function) {
  *value = 1024;
  return success;
}
Code cuFuncSetAttribute(Function, FunctionAttribute, int) {
  return success;
}
Code cuLaunchKernelEx(const LaunchConfiguration* configuration, Function, void** parameters, void**) {
  int device = 0;
  if (const Code code = cuCtxGetDevice(&device); code != success) return code;
  ++state.launches;
  if (state.on_launch == nullptr) return state.launch_code;
  regard::test::FakeLaunch launch{configuration->grid[0], configuration->block[0],
                                  configuration->shared_bytes, configuration->stream};
  for (unsigned i = 0; i < configuration->attribute_count; ++i) {
    const LaunchValue& value = configuration->attributes[i];
    if (value.id == attribute_cluster) launch.cluster = value.cluster[0];
    if (value.id == attribute_overlap) launch.overlaps = value.overlap == 1;
  }
  state.on_launch(launch, parameters);
  return state.launch_code;
}
/// Stores the inputs (address, sizes, strides) in the map; a real map is opaque.
Code cuTensorMapEncodeTiled(TensorMap* map, TensorMapType, unsigned rank, void* data,
                            const std::uint64_t* sizes, const std::uint64_t* strides, const std::uint32_t*,
                            const std::uint32_t*, int, TensorMapSwizzle, TensorMapPromotion, int) {
  ++state.encoded;
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return invalid_value;
  for (unsigned i = 0; i + 1 < rank; ++i) {
    if (strides[i] % 16 != 0) return invalid_value;
  }
  *map = {};
  map->opaque[0] = reinterpret_cast<std::uint64_t>(data);
  for (unsigned i = 0; i < rank; ++i) map->opaque[1 + i] = sizes[i];
  for (unsigned i = 0; i + 1 < rank; ++i) map->opaque[5 + i] = strides[i];
  return success;
}

}  // extern "C"
#pragma GCC visibility pop
