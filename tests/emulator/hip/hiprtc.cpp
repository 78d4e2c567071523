// libhiprtc.so.6 without ROCm: the code object that it returns is a shared object for this machine, built by
// the host's compiler, with AMD's machine number in its header. The emulated driver loads it.
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/hip/chips.h"
#include "emulator/hip/metadata.h"
#include "emulator/hip/translate.h"
#include "emulator/rtc.h"
#include "support/temporary_folder.h"

extern "C" __attribute__((visibility("default"))) int hiprtcVersion(int* major, int* minor);

namespace {

namespace fs = std::filesystem;
using emulator::Program, emulator::read, emulator::run, emulator::write;

/// "gfx942" of "--offload-arch=gfx942:sramecc+".
std::string chip_of(int count, const char* const* options) {
  for (int i = 0; i < count; ++i) {
    const std::string_view option = options[i];
    if (!option.starts_with("--offload-arch=") && !option.starts_with("--gpu-architecture=")) continue;
    const std::string_view chip = option.substr(option.find('=') + 1);
    return std::string(chip.substr(0, chip.find(':')));
  }
  throw std::runtime_error("no --offload-arch");
}

/// A kernel's variables begin with a pattern, as registers do. Where lanes of a wave meet is known by the
/// place in the code, which therefore must not be duplicated (-fno-thread-jumps). Multiply-adds are fused, as
/// by AMD's compilers.
constexpr const char* options =
    "-std=c++20 -O1 -g1 -w -fvisibility=hidden -fno-strict-aliasing -ftrivial-auto-var-init=pattern "
    "-fno-thread-jumps -fno-tree-tail-merge -ffp-contract=fast -fPIC -shared"
#if defined(__x86_64__)
    " -march=x86-64-v3"
#endif
    ;

/// As the compiler of ROCm names itself, with a hash of everything that determines the code: this library and
/// the emulator's headers, so that older code is never mistaken for current code.
std::string compiler_name() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&hiprtcVersion), &self);
  std::vector<fs::path> files = {self.dli_fname};
  const fs::path headers = fs::path(EMULATOR_HEADERS) / "emulator";
  for (const fs::path& folder : {headers, headers / "hip"})
    for (const fs::directory_entry& file : fs::directory_iterator(folder))
      if (file.path().extension() == ".h") files.push_back(file.path());
  std::ranges::sort(files);
  std::string all = std::string(EMULATOR_COMPILER) + __VERSION__;
  for (const fs::path& file : files) all += read(file);
  const char* const version = std::getenv("EMULATED_CLANG");  // if it is not the newest one
  return fmt::format("emulated clang version {} ({:x})", version != nullptr ? version : "22.0.0",
                     std::hash<std::string>()(all));
}

std::string compiled(const std::string& source, const std::string& chip) {
  const regard::TemporaryFolder temporary;
  const fs::path folder = temporary.path(), plain = folder / "kernel.hip",
                 preprocessed = folder / "kernel.ii", translated = folder / "kernel.cpp",
                 object = folder / "kernel.so", log = folder / "log";
  write(plain, source);
  std::string macro = chip;
  for (char& c : macro)
    if (c == '-') c = '_';
  const emulator::hip::Chip& described = emulator::hip::chip_named(chip);
  // The host's compiler refuses what attributes that it does not know are given.
  run(fmt::format("{} -E -x c++ -std=c++20 -D__HIP__ '-Damdgpu_flat_work_group_size(...)=used' "
                  "'-Damdgpu_waves_per_eu(...)=used' -D__HIP_DEVICE_COMPILE__ -D__AMDGCN__ -D__{}__ "
                  "-D__AMDGCN_WAVEFRONT_SIZE__={} '{}' -o '{}'",
                  EMULATOR_COMPILER, macro, described.wave, plain.string(), preprocessed.string()),
      log);
  write(translated,
        emulator::hip::translate(read(preprocessed)) + emulator::hip::metadata(described, compiler_name()));
  if (const char* const kept = std::getenv("EMULATOR_KEEP")) write(kept, read(translated));
  run(fmt::format("{} {} -I'{}' '{}' -o '{}'", EMULATOR_COMPILER, options, EMULATOR_HEADERS,
                  translated.string(), object.string()),
      log);
  std::string code = read(object);
  auto& header = *reinterpret_cast<Elf64_Ehdr*>(code.data());
  header.e_machine = EM_AMDGPU;
  header.e_flags = described.machine;
  return code;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int hiprtcVersion(int* major, int* minor) {
  *major = 6, *minor = 4;
  return 0;
}
EMULATED_RTC(hiprtc, HIPRTC)
int hiprtcCompileProgram(void* program, int count, const char* const* options_of_user) {
  return emulator::compile_program(
      program, [&](const Program& p) { return compiled(p.source, chip_of(count, options_of_user)); });
}
int hiprtcGetCodeSize(void* program, std::size_t* size) {
  *size = emulator::program_of(program).code.size();
  return 0;
}
int hiprtcGetCode(void* program, char* to) {
  return emulator::copy(emulator::program_of(program).code, to, 0);
}

}  // extern "C"
#pragma GCC visibility pop
