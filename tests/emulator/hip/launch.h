// A HIP kernel on an emulated AMD GPU: waves of 64 or 32 lanes, LDS, and copies to it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "emulator/hip/chips.h"
#include "emulator/hip/runtime.h"
#include "emulator/hip/wave.h"
#include "emulator/launch.h"

namespace emulator::hip {

/// The parameters of a launch.
struct HipGrid {
  unsigned blocks, threads;
  unsigned dynamic_bytes;  ///< of LDS
  int static_variables;    ///< of LDS
  int dynamic_alignment;   ///< as it is declared
  /// Dynamic memory follows static variables and is aligned no better than declared.
  std::uint32_t dynamic_start() const {
    const std::size_t start = static_variables * static_bytes;
    return static_cast<std::uint32_t>(start == 0 ? 0 : start + static_cast<std::size_t>(dynamic_alignment));
  }
  bool counts_lds = false;
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
  void wait_count(unsigned immediate) override;
  void fence(int order, std::string_view scope, std::string_view memory) override;
  void atomic(int order, int scope) override;
  void barrier() override;
  void pause() override { Launch::pause(); }

  /// The LDS instructions by their place in the kernel's code, if they are counted.
  const std::map<const void*, LdsCount>& lds_counts() const { return counts_; }
  /// For an instruction at this place of the code that reads for all lanes of the running wave.
  const std::uint8_t* read_for_lane(const void* place, unsigned lane, std::uint32_t address,
                                    std::uint32_t bytes);

 private:
  WaveState& wave_state();
  LaneState& lane_state() { return wave_state().lanes[static_cast<std::size_t>(thread().lane)]; }
  void note(const void* place, LdsUse, std::uint32_t address, std::uint32_t bytes);
  void end_accesses(WaveState&);
  void wait_for_copies(unsigned left);
  void starting(unsigned blocks) override;
  std::uint8_t* place(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment);
  void ending(Thread&) override;

  const Chip& chip_;
  std::uint32_t dynamic_start_;
  bool counts_lds_;
  std::vector<WaveState> waves_;  ///< of the blocks that run together
  std::map<const void*, LdsCount> counts_;
};

}  // namespace emulator::hip
