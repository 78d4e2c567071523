// A HIP kernel on an emulated AMD GPU: waves of 64 or 32 lanes, LDS, and copies to it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "emulator/hip/chips.h"
#include "emulator/hip/runtime.h"
#include "emulator/launch.h"

namespace emulator::hip {

/// The parameters of a launch.
struct HipGrid {
  unsigned blocks, threads;
  unsigned dynamic_bytes;  ///< of LDS
  int static_variables;    ///< of LDS
};

class HipLaunch final : public Runtime, public Launch {
 public:
  /// Throws std::runtime_error for a launch that the chip cannot do.
  HipLaunch(const Chip&, const HipGrid&, std::function<void()> kernel);

  void together(Builtin&, void* mine) override;
  void require(Builtin&) override;
  void* lds(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment, bool write) override;
  std::uint32_t lds_address(const void*) override;
  void* static_memory(int number) override;
  void* dynamic_memory() override;
  void copy_to_lds(Builtin&, const void* from, std::uint32_t base, std::uint32_t bytes) override;
  void wait_for_copies(unsigned left) override;
  void wait_count(unsigned immediate) override;
  void fence(int order, const char* scope) override;
  void barrier() override;
  void pause() override { Launch::pause(); }

  /// Of an instruction that reads for all lanes of the wave.
  const std::uint8_t* lds_of_wave(std::uint32_t address, std::uint32_t bytes);

 private:
  std::uint8_t* place(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment);
  void ending(Thread&) override;

  const Chip& chip_;
  std::uint32_t dynamic_start_;
};

}  // namespace emulator::hip
