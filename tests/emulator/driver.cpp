// Kernels and tensor maps of the emulated driver; its devices and memory come from the fake driver.
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "device/cuda/driver.h"
#include "emulator/cuda_launch.h"
#include "emulator/tensor_map.h"
#include "gpu/fake_driver/fake_driver.h"

using namespace regard::cuda;  // NOLINT: its types are used by this library's functions
using regard::test::FakeDriver;

extern "C" {
Code cuCtxGetDevice(int*);
Code cuDeviceGetAttribute(int*, DeviceAttribute, int);
}

namespace {

constexpr Code invalid_value = 1, invalid_image = 200, launch_failed = 719;

/// The symbols of a kernel's shared object (translate.h).
struct Kernel {
  emulator::Runtime** runtime;
  void (*launch)(void** parameters);
  unsigned most_shared = 49152;  ///< until more is requested
};

Code fail(Code code, const std::string& text) {
  thread_local std::string last;
  last = text;
  regard::test::fake_driver()->error_text = last.c_str();
  return code;
}

/// A multiprocessor of the device whose context is current.
struct Multiprocessor {
  int capability, shared_memory;
};
Multiprocessor multiprocessor() {
  int device = 0, shared_memory = 0;
  cuCtxGetDevice(&device);
  cuDeviceGetAttribute(&shared_memory, attribute_shared_memory, device);
  return {regard::test::fake_driver()->capability[device], shared_memory};
}

/// EMULATED_CAPABILITY=80 makes the first device one of compute capability 8.0. Multiprocessors are few, so
/// that a small problem takes more than one turn of a persistent block.
const bool described = [] {
  FakeDriver& fake = *regard::test::fake_driver();
  if (const char* const capability = std::getenv("EMULATED_CAPABILITY"))
    fake.capability[0] = std::atoi(capability);
  fake.multiprocessors[0] = 6;
  fake.multiprocessors[1] = 5;
  return true;
}();

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Code cuModuleLoadData(ModuleHandle* module, const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  const std::size_t bytes = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  header.e_machine = EM_X86_64;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#endif
  const int file = memfd_create("kernel", 0);
  const bool written = write(file, &header, sizeof header) == sizeof header &&
                       write(file, static_cast<const char*>(image) + sizeof header, bytes - sizeof header) ==
                           static_cast<ssize_t>(bytes - sizeof header);
  void* const object =
      written ? dlopen(fmt::format("/proc/self/fd/{}", file).c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  // The file stays open: otherwise another of the same name would be mistaken for this one.
  if (object == nullptr) return fail(invalid_image, written ? dlerror() : "no memory for a kernel");
  *module = reinterpret_cast<ModuleHandle>(
      new Kernel{static_cast<emulator::Runtime**>(dlsym(object, "emulator_runtime")),
                 reinterpret_cast<void (*)(void**)>(dlsym(object, "emulator_launch"))});
  return success;
}
Code cuFuncGetAttribute(int* value, FunctionAttribute, Function) {
  *value = 0;
  return success;
}
Code cuFuncSetAttribute(Function function, FunctionAttribute attribute, int value) {
  if (attribute != attribute_dynamic_shared || value < 0 || value > multiprocessor().shared_memory)
    return invalid_value;
  reinterpret_cast<Kernel*>(function)->most_shared = static_cast<unsigned>(value);
  return success;
}

Code cuLaunchKernelEx(const LaunchConfiguration* configuration, Function function, void** parameters,
                      void**) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const Kernel& kernel = *reinterpret_cast<const Kernel*>(function);
  const LaunchConfiguration& c = *configuration;
  if (c.grid[1] != 1 || c.grid[2] != 1 || c.block[1] != 1 || c.block[2] != 1)
    return fail(invalid_value, "launches of more than one dimension are not emulated");
  if (c.shared_bytes > kernel.most_shared)
    return fail(invalid_value,
                fmt::format("{} bytes of shared memory are more than the kernel was given", c.shared_bytes));
  emulator::CudaGrid grid{c.grid[0], c.block[0], 1, c.shared_bytes, multiprocessor().capability};
  for (unsigned i = 0; i < configuration->attribute_count; ++i)
    if (configuration->attributes[i].id == attribute_cluster)
      grid.cluster = configuration->attributes[i].cluster[0];
  if (grid.blocks % grid.cluster != 0)
    return fail(invalid_value, "the blocks are no multiple of a cluster's");
  ++regard::test::fake_driver()->launches;
  try {
    emulator::CudaLaunch launch(grid, [&] { kernel.launch(parameters); });
    *kernel.runtime = &launch;
    launch.run();
  } catch (const std::exception& error) {
    return fail(launch_failed, error.what());
  }
  return success;
}

Code cuTensorMapEncodeTiled(regard::cuda::TensorMap* map, TensorMapType type, unsigned rank, void* data,
                            const std::uint64_t* sizes, const std::uint64_t* strides,
                            const std::uint32_t* box, const std::uint32_t* steps, int,
                            TensorMapSwizzle swizzle, TensorMapPromotion, int) {
  emulator::TensorMap made{};
  made.address = reinterpret_cast<std::uint64_t>(data);
  made.rank = rank;
  made.element_bytes = type == map_uint8 ? 1 : 2;
  if (made.address % 16 != 0 || rank < 1 || rank > 5 || swizzle != swizzle_128_bytes) return invalid_value;
  for (unsigned i = 0; i < rank; ++i) {
    if (sizes[i] == 0 || sizes[i] > std::uint64_t{1} << 32 || box[i] == 0 || box[i] > 256 || steps[i] != 1)
      return invalid_value;
    made.extent[i] = sizes[i];
    made.box[i] = box[i];
    if (i == 0) continue;
    if (strides[i - 1] % 16 != 0 || strides[i - 1] >= std::uint64_t{1} << 40) return invalid_value;
    made.stride[i - 1] = strides[i - 1];
  }
  if (made.box[0] * made.element_bytes != 128) return invalid_value;
  *map = {};
  std::memcpy(map, &made, sizeof made);
  return success;
}

}  // extern "C"
#pragma GCC visibility pop
