#include "emulated_hip/kernel.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

extern "C" {
int hiprtcCreateProgram(void**, const char*, const char*, int, const char* const*, const char* const*);
int hiprtcCompileProgram(void*, int, const char* const*);
int hiprtcGetCodeSize(void*, std::size_t*);
int hiprtcGetCode(void*, char*);
int hiprtcGetProgramLogSize(void*, std::size_t*);
int hiprtcGetProgramLog(void*, char*);
int hiprtcDestroyProgram(void**);
int hipModuleLoadData(void**, const void*);
int hipModuleGetFunction(void**, void*, const char*);
int hipModuleLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                          void**, void**);
const char* hipGetErrorString(int);
const char* hipEmulatedLdsReport();
void hipEmulatedChip(const char*);
}

namespace regard::test {

Setting::Setting(const char* name, const std::string& value) : name_(name) {
  setenv(name, value.c_str(), 1);
}
Setting::~Setting() {
  unsetenv(name_);
}

std::string code_of(const std::string& source, const std::string& chip) {
  void* program = nullptr;
  hiprtcCreateProgram(&program, source.c_str(), "kernel.hip", 0, nullptr, nullptr);
  const std::string option = "--offload-arch=" + chip;
  const char* const options[] = {option.c_str()};
  const bool compiled = hiprtcCompileProgram(program, 1, options) == 0;
  std::size_t size = 0;
  compiled ? hiprtcGetCodeSize(program, &size) : hiprtcGetProgramLogSize(program, &size);
  std::string text(size, 0);
  compiled ? hiprtcGetCode(program, text.data()) : hiprtcGetProgramLog(program, text.data());
  hiprtcDestroyProgram(&program);
  return compiled ? text : throw std::runtime_error(text);
}

gpu::Device emulated_device(const std::string& chip) {
  hipEmulatedChip(chip.c_str());
  gpu::Device device = gpu::devices(*gpu::find_backend("hip"))->front();
  device.chip = chip;
  return device;
}

HipKernel::HipKernel(const std::string& source, const std::string& chip, const std::string& device,
                     const char* name)
    : device_(device.empty() ? chip : device) {
  hipEmulatedChip(device_.c_str());
  try {
    const std::string code = code_of(source, chip);
    void* module = nullptr;
    if (const int failed = hipModuleLoadData(&module, code.data()); failed != 0)
      error_ = hipGetErrorString(failed);
    else if (const int missing = hipModuleGetFunction(&function_, module, name); missing != 0)
      error_ = hipGetErrorString(missing);
  } catch (const std::runtime_error& error) {
    error_ = error.what();
  }
}

std::string HipKernel::error(const HipLaunchSize& size, void* arguments, int seed) const {
  if (!error_.empty()) return error_;
  hipEmulatedChip(device_.c_str());
  const Setting order("EMULATOR_SEED", std::to_string(seed));
  void* parameters[] = {arguments};
  const int code = hipModuleLaunchKernel(function_, size.blocks, 1, 1, size.threads, 1, 1, size.lds_bytes,
                                         nullptr, parameters, nullptr);
  return code == 0 ? "" : hipGetErrorString(code);
}

std::string lds_report() {
  return hipEmulatedLdsReport();
}

std::string kernel_source(std::string_view members, std::string_view body) {
  return fmt::format(
      "typedef unsigned u32;\n"
      "template <class T> using LdsPointer = __attribute__((address_space(3))) T*;\n"
      "#define FENCE(order) __builtin_amdgcn_fence(order, \"workgroup\", \"local\")\n"
      "#define RELEASE FENCE(__ATOMIC_RELEASE);\n"
      "#define ACQUIRE FENCE(__ATOMIC_ACQUIRE);\n"
      "#define BARRIER RELEASE __builtin_amdgcn_s_barrier(); ACQUIRE\n"
      "struct Arguments {{ {} }};\n"
      "extern \"C\" __attribute__((global, amdgpu_flat_work_group_size(64, 1024))) void kernel(Arguments x) "
      "{{\n"
      "  u32 thread = __builtin_amdgcn_workitem_id_x();\n"
      "  {}\n"
      "}}\n",
      members, body);
}

std::string with_change(const std::string& source, const std::string& from, const std::string& to) {
  const std::size_t at = source.find(from);
  if (at == std::string::npos || source.find(from, at + 1) != std::string::npos)
    throw std::runtime_error(fmt::format("'{}' is not there once", from));
  return std::string(source).replace(at, from.size(), to);
}

}  // namespace regard::test
