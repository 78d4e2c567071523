#include "emulator/instructions.h"

#include <fmt/format.h>

namespace emulator {
namespace {

/// The value of up to eight bytes; the usual four without a function call.
std::uint64_t bits_at(const void* place, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, place, bytes == 4 ? 4 : bytes);
  return bits;
}
void set_bits(void* place, std::size_t bytes, std::uint64_t bits) {
  std::memcpy(place, &bits, bytes == 4 ? 4 : bytes);
}

}  // namespace

using Kind = ptx::Operand::Kind;

std::uint64_t Execution::get(const ptx::Operand& operand) {
  switch (operand.kind) {
    case Kind::argument:
      return bits_at(arguments_[operand.number].place, arguments_[operand.number].bytes);
    case Kind::local:
      return locals_.at(static_cast<std::size_t>(operand.number));
    case Kind::number:
      return static_cast<std::uint64_t>(operand.number);
    case Kind::thread_number:
      return thread().position.thread.x;
    case Kind::cluster_rank:
      return thread().block->rank;
    case Kind::vector:
      return (get(operand.parts.at(0)) & 0xffff) | (get(operand.parts.at(1)) & 0xffff) << 16;
    case Kind::memory:
      return get(operand.parts.at(0));
    case Kind::nothing:
      break;
  }
  throw std::runtime_error("an operand that cannot be read is read");
}

void Execution::set(const ptx::Operand& operand, std::uint64_t bits) {
  switch (operand.kind) {
    case Kind::argument:
      set_bits(arguments_[operand.number].place, arguments_[operand.number].bytes, bits);
      return;
    case Kind::local:
      locals_.at(static_cast<std::size_t>(operand.number)) = bits;
      return;
    case Kind::vector:
      set(operand.parts.at(0), bits & 0xffff);
      set(operand.parts.at(1), bits >> 16 & 0xffff);
      return;
    default:
      throw std::runtime_error("an operand that cannot be written is written");
  }
}

Handler find_instruction(std::string_view name, int capability) {
  for (const auto table :
       {arithmetic_instructions(), memory_instructions(), meeting_instructions(), matrix_instructions()}) {
    for (const Named& known : table) {
      const bool family = known.name.ends_with('*');
      if (family ? !name.starts_with(known.name.substr(0, known.name.size() - 1)) : name != known.name)
        continue;
      if (capability >= known.from && capability <= known.to) return known.execute;
      throw std::runtime_error(fmt::format("sm_{} has no instruction '{}'", capability, name));
    }
  }
  throw std::runtime_error(fmt::format("the emulator does not know the instruction '{}'", name));
}

}  // namespace emulator
