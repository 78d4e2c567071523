// Kernels of the emulated HIP runtime.
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "emulator/hip/launch.h"

namespace {

using Code = int;
constexpr Code success = 0, invalid_value = 1, invalid_image = 200, launch_failed = 719;

/// The symbols of a kernel's shared object (translate.h).
struct Kernel {
  emulator::hip::Runtime** runtime;
  void (*launch)(void** parameters);
  int static_variables;
  std::string name;
};

thread_local std::string last_error = "no error";

Code fail(Code code, const std::string& text) {
  last_error = text;
  return code;
}

const char* chip_name() {
  const char* const chip = std::getenv("EMULATED_CHIP");
  return chip == nullptr ? "gfx942" : chip;
}

template <class T>
T* symbol(void* object, const char* name) {
  return reinterpret_cast<T*>(dlsym(object, name));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

const char* hipGetErrorString(Code code) {
  return code == success ? "no error" : last_error.c_str();
}

Code hipModuleLoadData(void** module, const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (header.e_machine != EM_AMDGPU) return fail(invalid_image, "this is no code object of AMD");
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
  *module = new Kernel{symbol<emulator::hip::Runtime*>(object, "emulator_runtime"),
                       symbol<void(void**)>(object, "emulator_launch"),
                       *symbol<const int>(object, "emulator_static_variables"),
                       symbol<const char>(object, "emulator_kernel")};
  return success;
}
Code hipModuleUnload(void*) {
  return success;
}
Code hipModuleGetFunction(void** function, void* module, const char* name) {
  if (static_cast<Kernel*>(module)->name != name)
    return fail(500, fmt::format("the code object has no kernel '{}'", name));
  *function = module;
  return success;
}

Code hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_bytes,
                           void*, void** parameters, void**) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const Kernel& kernel = *static_cast<const Kernel*>(function);
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1)
    return fail(invalid_value, "launches of more than one dimension are not emulated");
  try {
    emulator::hip::HipLaunch launch(emulator::hip::chip_named(chip_name()),
                                    {grid_x, block_x, dynamic_bytes, kernel.static_variables},
                                    [&] { kernel.launch(parameters); });
    *kernel.runtime = &launch;
    launch.run();
  } catch (const std::exception& error) {
    return fail(launch_failed, error.what());
  }
  return success;
}

}  // extern "C"
#pragma GCC visibility pop
