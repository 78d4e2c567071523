// PTX as `asm` statements contain it: a few instructions, whose operands are those of the statement, their
// own registers, numbers, and memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

class Execution;

namespace ptx {

struct Operand {
  enum class Kind { argument, local, number, thread_number, cluster_rank, vector, memory, nothing };
  Kind kind;
  std::int64_t number = 0;     ///< which argument or register; for a number, its value
  std::vector<Operand> parts;  ///< of a vector; for memory its address and, for a tile, the coordinates
};

struct Instruction {
  std::string name;  ///< "cvt.rn.bf16x2.f32"
  void (*execute)(Execution&, const Instruction&);
  std::vector<Operand> operands;
  int guard = -1;  ///< the register that must be `guard_value`; -1: none
  bool guard_value = true;
};

struct Program {
  std::vector<Instruction> instructions;
  int locals = 0;
};

/// Throws std::runtime_error for instructions that the emulator does not know, or that a GPU of this compute
/// capability does not have.
Program parse(std::string_view text, int capability);

}  // namespace ptx
}  // namespace emulator
