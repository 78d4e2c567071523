// What a translated kernel and the emulator that runs it know of each other. A kernel is a shared object of
// its own, compiled by the host's compiler; it reaches the emulator through the one pointer it is given.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

/// An operand of an `asm` statement: where it is, or text that stands in the instruction.
struct Operand {
  void* place;
  std::uint32_t bytes;
  const char* text;
};

/// Where an `asm` statement stands. The emulator reads its text at the first use.
struct Site {
  const char* text;
  const void* program;
};

struct Index {
  unsigned x, y, z;
};

/// A thread's place in its launch.
struct Position {
  Index thread, block, block_size, grid_size;
};

/// What the lanes of a warp do together.
enum class Collective { shuffle, shuffle_xor, shuffle_up, any, ballot, sum, nothing };

class Runtime {
 public:
  virtual void execute(Site&, const Operand* operands, int count) = 0;
  /// Of each lane `value` goes in, and what `what` makes of all of them comes out.
  virtual std::uint32_t together(Collective what, std::uint32_t value, std::uint32_t argument) = 0;
  /// All threads of the block; whether one of them has `value`.
  virtual bool sync_block(bool value) = 0;
  /// Shared memory of the block: a variable's, and what the launch asked for.
  virtual void* fixed_memory(int number) = 0;
  /// `alignment`: as declared, 0 where it is not.
  virtual void* dynamic_memory(std::uint32_t alignment) = 0;
  virtual std::uint32_t shared_address(const void*) = 0;

  Position position{};  ///< of the thread that runs

 protected:
  ~Runtime() = default;
};

/// Variables in shared memory that a kernel may have, and the most bytes of one.
constexpr int fixed_variables = 2;
constexpr std::size_t fixed_memory_bytes = 4096;

}  // namespace emulator
