// The effect of each PTX instruction that kernels use, by name.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>

#include "emulator/launch.h"
#include "emulator/ptx.h"
#include "emulator/runtime.h"

namespace emulator {

/// One thread's execution of the instructions of an `asm` statement.
class Execution {
 public:
  Execution(Launch& launch, const Operand* arguments) : launch_(launch), arguments_(arguments) {}

  void run(const ptx::Program& program) {
    for (next_ = 0; next_ < program.instructions.size();) {
      const ptx::Instruction& instruction = program.instructions[next_++];
      if (instruction.guard < 0 ||
          (locals_[static_cast<std::size_t>(instruction.guard)] != 0) == instruction.guard_value)
        instruction.execute(*this, instruction);
    }
  }

  Launch& launch() { return launch_; }
  Thread& thread() { return launch_.thread(); }
  void jump(std::int64_t to) { next_ = static_cast<std::size_t>(to); }

  /// The bits of an operand; a vector of two is a 32-bit number, the first in its low half.
  std::uint64_t get(const ptx::Operand&);
  void set(const ptx::Operand&, std::uint64_t bits);
  float get_float(const ptx::Operand& operand) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(get(operand)));
  }
  void set_float(const ptx::Operand& operand, float x) { set(operand, std::bit_cast<std::uint32_t>(x)); }
  /// Where an argument is.
  void* place(const ptx::Operand& operand) { return arguments_[operand.number].place; }

 private:
  Launch& launch_;
  const Operand* arguments_;
  std::array<std::uint64_t, 8> locals_{};
  std::size_t next_ = 0;
};

using Handler = void (*)(Execution&, const ptx::Instruction&);

/// An instruction or, with a star at the end, a family of them, and the GPUs that have it.
struct Named {
  std::string_view name;
  Handler execute;
  int from = 75, to = 1000;  ///< compute capability in tenths
};

/// Throws std::runtime_error for an instruction that is unknown, or that the GPU does not have.
Handler find_instruction(std::string_view name, int capability);

// The tables that it searches, by topic.
std::span<const Named> arithmetic_instructions();
std::span<const Named> memory_instructions();
std::span<const Named> meeting_instructions();
std::span<const Named> matrix_instructions();

}  // namespace emulator
