// A kernel of its own source on an emulated AMD GPU (tests/emulator/hip).
#pragma once

#include <string>
#include <string_view>

#include "device/gpu.h"

namespace regard::test {

/// Sets a variable of the environment during its lifetime.
class Setting {
 public:
  Setting(const char* name, const std::string& value);
  ~Setting();
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

struct HipLaunchSize {
  unsigned blocks = 1, threads = 64, lds_bytes = 0;
};

/// The code object that hiprtc makes of the source for `chip`; throws std::runtime_error with its log.
std::string code_of(const std::string& source, const std::string& chip);

/// The emulator's first device, as one of that chip.
gpu::Device emulated_device(const std::string& chip);

class HipKernel {
 public:
  /// `source` has one kernel of this name, and is compiled for `chip`. `device`: another one that it runs on.
  HipKernel(const std::string& source, const std::string& chip, const std::string& device = "",
            const char* name = "kernel");

  /// An empty string, or what is wrong: with the source, or with the launch. `seed`: of the order of events.
  std::string error(const HipLaunchSize& size, void* arguments, int seed = 1) const;
  template <class Arguments>
  std::string run(const HipLaunchSize& size, Arguments arguments, int seed = 1) const {
    return error(size, &arguments, seed);
  }

 private:
  std::string device_, error_;
  void* function_ = nullptr;
};

/// What the emulator counted of the last launch's LDS instructions; EMULATOR_LDS must be set.
std::string lds_report();

/// A kernel with this body, in which `x` is a struct of these members.
std::string kernel_source(std::string_view members, std::string_view body);

/// `source` with its one occurrence of `from` replaced; throws if there is none, or more than one.
std::string with_change(const std::string& source, const std::string& from, const std::string& to);

}  // namespace regard::test
