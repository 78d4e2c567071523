// libnvrtc.so.13 without NVRTC: the machine code that it returns is a shared object for this machine, built
// by the host's compiler, with CUDA's machine number in its header. The emulated driver loads it.
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <string>

#include "emulator/rtc.h"
#include "emulator/translate.h"
#include "support/temporary_folder.h"

extern "C" __attribute__((visibility("default"))) int nvrtcVersion(int* major, int* minor);

namespace {

namespace fs = std::filesystem;
using emulator::Program, emulator::read, emulator::run, emulator::write;

std::string compiled(const Program& program) {
  const regard::TemporaryFolder temporary;
  const fs::path folder = temporary.path(), plain = folder / "kernel.cu", preprocessed = folder / "kernel.ii",
                 translated = folder / "kernel.cpp", object = folder / "kernel.so", log = folder / "log";
  write(plain, program.source);
  run(fmt::format("{} -E -P -x c++ -std=c++20 -D__CUDACC__ '{}' -o '{}'", EMULATOR_COMPILER, plain.string(),
                  preprocessed.string()),
      log);
  write(translated, emulator::translate(read(preprocessed)));
  run(fmt::format(
          "{} -std=c++20 -O1 -w -fvisibility=hidden -fno-strict-aliasing -fPIC -shared -I'{}' '{}' -o '{}'",
          EMULATOR_COMPILER, EMULATOR_HEADERS, translated.string(), object.string()),
      log);
  std::string code = read(object);
  reinterpret_cast<Elf64_Ehdr*>(code.data())->e_machine = EM_CUDA;
  return code;
}

/// A hash of everything that determines the code: this library and what kernels include, so that older code
/// is never mistaken for current code.
std::size_t build_number() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&nvrtcVersion), &self);
  const fs::path headers = fs::path(EMULATOR_HEADERS) / "emulator";
  return std::hash<std::string>()(read(self.dli_fname) + read(headers / "language.h") +
                                  read(headers / "runtime.h") + EMULATOR_COMPILER + __VERSION__);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return 0;
}
EMULATED_RTC(nvrtc, NVRTC)
int nvrtcCompileProgram(void* program, int, const char* const*) {
  const int result = emulator::compile_program(program, compiled);
  if (result != emulator::success) return result;
  Program& p = emulator::program_of(program);
  p.log = "Compiling entry function\nUsed 1 registers, used 0 barriers\n";
  p.ptx =
      fmt::format("// Compiler Build ID: emulator-{:x}\n// Cuda compilation tools, release 13.0, V13.0.0\n",
                  build_number());
  return result;
}
int nvrtcGetPTXSize(void* program, std::size_t* size) {
  *size = emulator::program_of(program).ptx.size() + 1;
  return 0;
}
int nvrtcGetPTX(void* program, char* to) {
  return emulator::copy(emulator::program_of(program).ptx, to, 1);
}
int nvrtcGetCUBINSize(void* program, std::size_t* size) {
  *size = emulator::program_of(program).code.size();
  return 0;
}
int nvrtcGetCUBIN(void* program, char* to) {
  return emulator::copy(emulator::program_of(program).code, to, 0);
}

}  // extern "C"
#pragma GCC visibility pop
