// A CUDA kernel on the emulated GPU: its PTX, its warp's operations and its shared memory.
#pragma once

#include <cstdint>
#include <functional>

#include "emulator/launch.h"
#include "emulator/runtime.h"

namespace emulator {

/// The parameters of a launch.
struct CudaGrid {
  unsigned blocks, threads, cluster, shared_bytes;
  int capability;  ///< of the device, in tenths
};

class CudaLaunch final : public Runtime, public Launch {
 public:
  CudaLaunch(const CudaGrid&, std::function<void()> kernel);

  void execute(Site&, const Operand* operands, int count) override;
  std::uint32_t together(Collective what, std::uint32_t value, std::uint32_t argument) override;
  bool sync_block(bool value) override;
  void* fixed_memory(int number) override;
  void* dynamic_memory(std::uint32_t alignment) override;
  std::uint32_t shared_address(const void*) override;

 private:
  /// Where dynamic shared memory begins: aligned as the kernel declares it, but no better.
  static constexpr std::uint32_t dynamic_start(std::uint32_t alignment) {
    constexpr std::uint32_t fixed = fixed_variables * fixed_memory_bytes;
    return (fixed + 2 * alignment - 1) / (2 * alignment) * (2 * alignment) + alignment;
  }
  static constexpr std::uint32_t largest_alignment = 1024;

  unsigned shared_bytes_;
  int capability_;
};

}  // namespace emulator
