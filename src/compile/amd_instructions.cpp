#include "compile/amd_instructions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/text.h"

// Names of encodings and fields are those of AMD's ISA documents.

namespace regard {
namespace {

using Word = std::uint32_t;

constexpr Word bits(Word word, int high, int low) {
  return (word >> low) & ((Word{1} << (high - low + 1)) - 1);
}

/// CDNA2 to 4; RDNA3; RDNA4.
enum class Family : std::uint8_t { gfx9, gfx11, gfx12 };

/// Operands that are a word after the instruction: a constant, or lanes in another order (SDWA, DPP, DPP8).
constexpr bool is_literal(Word operand) {
  return operand == 255;
}
constexpr bool is_word(Word operand) {
  return is_literal(operand) || operand == 249 || operand == 250 || operand == 233 || operand == 234;
}

constexpr bool is_one_of(Word op, std::initializer_list<Word> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

/// Of VOP3P: those from 0x40 on, WMMA and MFMA, and those that CDNA4 has between packed ones.
constexpr bool is_matrix_op(Word op) {
  return op >= 0x40 || is_one_of(op, {0x2d, 0x2e, 0x35, 0x36, 0x37, 0x38});
}

/// An instruction of which `at` is the first word, and `next` the second one, if it has one.
struct Instruction {
  Family family;
  Word at, next;

  bool is_gfx9() const { return family == Family::gfx9; }
  bool is_vector() const { return bits(at, 31, 31) == 0; }     // VOP1, VOP2, VOPC
  bool is_scalar() const { return bits(at, 31, 30) == 0b10; }  // SOP1, SOP2, SOPC, SOPK, SOPP
  bool is_sopp() const { return bits(at, 31, 23) == 0b101111111; }
  bool is_vop3() const { return bits(at, 31, 26) == (is_gfx9() ? 0b110100 : 0b110101) && !is_vop3p(); }
  bool is_vop3p() const {
    return is_gfx9() ? bits(at, 31, 23) == 0b110100111 : bits(at, 31, 24) == 0b11001100;
  }

  /// Whether the words of the encoding are followed by one more.
  bool has_literal() const {
    if (is_vector()) {
      // v_fmamk, v_fmaak and their likes of fp16
      const Word op = bits(at, 30, 25);
      return is_word(bits(at, 8, 0)) ||
             (is_gfx9() ? is_one_of(op, {23, 24, 36, 37}) : is_one_of(op, {44, 45, 55, 56}));
    }
    if (is_sopp()) return false;
    if (is_scalar()) {
      if (bits(at, 31, 28) == 0b1011 && bits(at, 27, 23) < 0b11101)  // SOPK
        return bits(at, 27, 23) == (is_gfx9() ? 20 : 19);            // s_setreg_imm32_b32
      if (is_literal(bits(at, 7, 0))) return true;
      if (bits(at, 31, 23) == 0b101111101) return false;  // SOP1 has one operand
      return is_literal(bits(at, 15, 8)) ||
             (!is_gfx9() && is_one_of(bits(at, 30, 23), {69, 70}));  // s_fmaak, s_fmamk
    }
    if (is_gfx9()) return false;
    if (bits(at, 31, 26) == 0b110010) {  // VOPD, two instructions in one
      return is_literal(bits(at, 8, 0)) || is_literal(bits(next, 8, 0)) ||
             is_one_of(bits(at, 25, 22), {1, 2}) || is_one_of(bits(at, 21, 17), {1, 2});
    }
    return (is_vop3() || is_vop3p()) &&
           (is_word(bits(next, 8, 0)) || is_literal(bits(next, 17, 9)) || is_literal(bits(next, 26, 18)));
  }

  std::size_t words() const {
    std::size_t count = 2;
    if (is_vector() || is_scalar()) count = 1;
    // VFLAT and its likes, VBUFFER, VIMAGE, VSAMPLE
    if (family == Family::gfx12 && is_one_of(bits(at, 31, 26), {0b111011, 0b110001, 0b110100, 0b111001}))
      count = 3;
    return count + (has_literal() ? 1 : 0);
  }

  bool moves_accumulators() const {
    if (!is_gfx9()) return false;
    const bool read_or_write = is_vop3p() && is_one_of(bits(at, 22, 16), {0x58, 0x59});
    return read_or_write || (bits(at, 31, 25) == 0b0111111 && bits(at, 16, 9) == 0x52);
  }
  bool is_matrix() const { return is_vop3p() && is_matrix_op(bits(at, 22, 16)) && !moves_accumulators(); }
  bool moves_scalars() const {  // v_readlane, v_writelane
    return is_vop3() && (is_gfx9() ? is_one_of(bits(at, 25, 16), {0x289, 0x28a})
                                   : is_one_of(bits(at, 25, 16), {0x360, 0x361}));
  }
  bool is_flat() const {
    if (family == Family::gfx12) return bits(at, 31, 24) == 0b11101100;
    return bits(at, 31, 26) == 0b110111 && (is_gfx9() ? bits(at, 15, 14) : bits(at, 17, 16)) == 0;
  }
  /// By how many words, from the next instruction; 0: it is no branch.
  std::int64_t branch() const {
    if (!is_sopp()) return 0;
    const Word op = bits(at, 22, 16);
    const bool is_branch = is_gfx9() ? op == 2 || (op >= 4 && op <= 9) : op >= 32 && op <= 38;
    return is_branch ? static_cast<std::int16_t>(bits(at, 15, 0)) : 0;
  }
};

struct Loop {
  std::int64_t begin, end;  ///< words of its first instruction and of the branch back to that
};

}  // namespace

Result<AmdInstructions> count_amd_instructions(std::span<const std::byte> code, std::string_view chip) {
  Family family;
  if (chip.starts_with("gfx9")) {
    family = Family::gfx9;
  } else if (chip.starts_with("gfx11")) {
    family = Family::gfx11;
  } else if (chip.starts_with("gfx12")) {
    family = Family::gfx12;
  } else {
    return fail(ErrorKind::internal, fmt::format("instructions of {} are not known", in_quotes(chip)));
  }

  std::vector<Word> words(code.size() / sizeof(Word) + 1);  // a zero at the end
  std::memcpy(words.data(), code.data(), code.size() / sizeof(Word) * sizeof(Word));
  const auto size = static_cast<std::int64_t>(words.size()) - 1;
  AmdInstructions counts;
  std::vector<std::int64_t> accumulator_moves, scalar_moves;
  std::vector<Loop> loops;
  std::int64_t at = 0;
  for (std::int64_t length; at < size; at += length) {
    const auto word = static_cast<std::size_t>(at);
    const Instruction instruction{family, words[word], words[word + 1]};
    length = static_cast<std::int64_t>(instruction.words());
    ++counts.all;
    counts.matrix += instruction.is_matrix();
    counts.flat += instruction.is_flat();
    if (instruction.moves_accumulators()) accumulator_moves.push_back(at);
    if (instruction.moves_scalars()) scalar_moves.push_back(at);
    if (const std::int64_t distance = instruction.branch(); distance < 0)
      loops.push_back({at + length + distance, at});
  }
  if (at != size || code.size() % sizeof(Word) != 0)
    return fail(
        ErrorKind::internal,
        fmt::format("the machine code for {} is not understood: its last instruction is cut off", chip));

  const auto in_loops = [&](const std::vector<std::int64_t>& moves) {
    return std::ranges::count_if(moves, [&](std::int64_t move) {
      return std::ranges::any_of(loops, [&](const Loop& l) { return l.begin <= move && move <= l.end; });
    });
  };
  counts.accumulator_moves = in_loops(accumulator_moves);
  counts.scalar_moves = in_loops(scalar_moves);
  return counts;
}

}  // namespace regard
