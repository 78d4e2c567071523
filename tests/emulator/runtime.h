// The interface between a translated kernel and the emulator that runs it. A kernel is a separate shared
// object built by the host's compiler; it reaches the emulator through the one pointer that it is given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/position.h"

namespace emulator {

/// An operand of an `asm` statement: its address, or text that is part of the instruction.
struct Operand {
  void* place;
  std::uint32_t bytes;
  const char* text;
};

/// The location of an `asm` statement. The emulator parses its text on first use.
struct Site {
  const char* text;
  const void* program;
};

/// An operation that the lanes of a warp perform together.
enum class Collective { shuffle, shuffle_xor, shuffle_up, any, ballot, sum, nothing };

class Runtime {
 public:
  virtual void execute(Site&, const Operand* operands, int count) = 0;
  /// Takes a `value` from each lane, and returns what `what` makes of all of them.
  virtual std::uint32_t together(Collective what, std::uint32_t value, std::uint32_t argument) = 0;
  /// Waits for all threads of the block; returns whether `value` is true for one of them.
  virtual bool sync_block(bool value) = 0;
  /// Shared memory of the block: that of a variable, and the amount requested by the launch.
  virtual void* fixed_memory(int number) = 0;
  /// `alignment`: as declared, 0 if it is not.
  virtual void* dynamic_memory(std::uint32_t alignment) = 0;
  virtual std::uint32_t shared_address(const void*) = 0;

  Position position{};  ///< of the running thread

 protected:
  ~Runtime() = default;
};

/// The maximum number of shared memory variables in a kernel, and the maximum bytes of one.
constexpr int fixed_variables = 2;
constexpr std::size_t fixed_memory_bytes = 8192;

}  // namespace emulator
