// Modules and kernels of the emulated HIP runtime; its devices and memory come from the fake driver.
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "device/hip/driver.h"
#include "emulator/hip/launch.h"
#include "emulator/hip/lds_report.h"
#include "gpu/fake_driver/host_device.h"

using namespace regard::hip;  // NOLINT: its types are what this library's functions take
using emulator::hip::Chip;
using regard::test::FakeDriver;

namespace {

constexpr Code invalid_value = 1, invalid_image = 200, no_binary = 209, not_found = 500, launch_failed = 719;

Code fail(Code code, const std::string& text) {
  thread_local std::string last;
  last = text;
  regard::test::fake_driver()->error_text = last.c_str();
  return code;
}

void set_chip(std::string name) {
  static std::string kept;
  kept = std::move(name);
  if (kept.starts_with("gfx9")) kept += ":sramecc+:xnack-";
  regard::test::fake_driver()->chip[0] = kept.c_str();
}

/// EMULATED_CHIP=gfx950 makes the first device one of that chip. Multiprocessors are few, so that a small
/// problem takes more than one turn of a persistent block.
const bool described = [] {
  FakeDriver& fake = *regard::test::fake_driver();
  if (const char* const chip = std::getenv("EMULATED_CHIP")) set_chip(chip);
  fake.multiprocessors[0] = 6;
  fake.multiprocessors[1] = 5;
  return true;
}();

/// Of the thread's current device.
const Chip& current_chip() {
  const std::string_view name = regard::test::fake_driver()->chip[regard::test::current_device().of_hip];
  return emulator::hip::chip_named(name.substr(0, name.find(':')));
}

/// The symbols of a kernel's shared object (translate.h).
struct Kernel {
  emulator::hip::Runtime** runtime;
  void (*launch)(void** parameters);
  int static_variables, dynamic_alignment;
  std::string name;
  const Chip& chip;  ///< that it was compiled for
};

template <class T>
T* symbol(void* object, const char* name) {
  return reinterpret_cast<T*>(dlsym(object, name));
}

/// Code for a chip runs on that one; code for a family runs on all of its chips.
bool runs_on(const Chip& code, const Chip& chip) {
  return code.name == chip.name ||
         (code.name.ends_with("-generic") && code.wave == chip.wave &&
          code.name.substr(0, 5) == chip.name.substr(0, 5)) ||
         (code.name == "gfx9-4-generic" &&
          (chip.family & (emulator::hip::cdna3 | emulator::hip::cdna4)) != 0);
}

std::string counted;  ///< hipEmulatedLdsReport

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Code hipModuleLoadData(ModuleHandle* module, const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_AMDGPU)
    return fail(invalid_image, "this is no code object of AMD");
  const std::size_t bytes = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  const unsigned machine = header.e_flags & 0xff;
  header.e_flags = 0;
  header.e_machine = EM_X86_64;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#endif
  const int file = memfd_create("kernel", 0);
  const bool written = write(file, &header, sizeof header) == sizeof header &&
                       write(file, static_cast<const char*>(image) + sizeof header, bytes - sizeof header) ==
                           static_cast<ssize_t>(bytes - sizeof header);
  try {
    const Chip& chip = emulator::hip::chip_numbered(machine);
    if (!runs_on(chip, current_chip()))
      return fail(no_binary, fmt::format("code for {} does not run on {}", chip.name, current_chip().name));
    void* const object =
        written ? dlopen(fmt::format("/proc/{}/fd/{}", getpid(), file).c_str(), RTLD_NOW | RTLD_LOCAL)
                : nullptr;
    // The file stays open: otherwise another of the same name would be mistaken for this one.
    if (object == nullptr) return fail(invalid_image, written ? dlerror() : "no memory for a kernel");
    if (symbol<void>(object, "emulator_launch") == nullptr)
      return fail(invalid_image, "this is a code object for a GPU, not for the emulator");
    *module =
        reinterpret_cast<ModuleHandle>(new Kernel{symbol<emulator::hip::Runtime*>(object, "emulator_runtime"),
                                                  symbol<void(void**)>(object, "emulator_launch"),
                                                  *symbol<const int>(object, "emulator_static_variables"),
                                                  *symbol<const int>(object, "emulator_dynamic_alignment"),
                                                  symbol<const char>(object, "emulator_kernel"), chip});
  } catch (const std::exception& error) {
    return fail(no_binary, error.what());
  }
  return success;
}
/// Kernels are few, and what was counted of them is read later.
Code hipModuleUnload(ModuleHandle) {
  return success;
}
Code hipModuleGetFunction(Function* function, ModuleHandle module, const char* name) {
  if (reinterpret_cast<const Kernel*>(module)->name != name)
    return fail(not_found, fmt::format("the code object has no kernel '{}'", name));
  *function = reinterpret_cast<Function>(module);
  return success;
}

Code hipModuleLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_bytes,
                           void*, void** parameters, void**) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const Kernel& kernel = *reinterpret_cast<const Kernel*>(function);
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1)
    return fail(invalid_value, "launches of more than one dimension are not emulated");
  ++regard::test::fake_driver()->launches;
  try {
    emulator::hip::HipLaunch launch(kernel.chip,
                                    {grid_x, block_x, dynamic_bytes, kernel.static_variables,
                                     kernel.dynamic_alignment, std::getenv("EMULATOR_LDS") != nullptr},
                                    [&] { kernel.launch(parameters); });
    *kernel.runtime = &launch;
    launch.run();
    counted = emulator::hip::lds_report(launch.lds_counts());
  } catch (const std::exception& error) {
    return fail(launch_failed, error.what());
  }
  return success;
}

// Not of HIP:

/// Makes the first device one of that chip.
void hipEmulatedChip(const char* name) {
  set_chip(name);
}
/// What lds_report returned for the last launch, if EMULATOR_LDS is set.
const char* hipEmulatedLdsReport() {
  return counted.c_str();
}

}  // extern "C"
#pragma GCC visibility pop
