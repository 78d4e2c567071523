// One machine instruction of an AMD GPU: its length, its encoding and what kind it is. Names of encodings and
// fields are those of AMD's ISA documents.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace regard::amd {

using Word = std::uint32_t;

/// CDNA2 to 4; RDNA3; RDNA4.
enum class Family : std::uint8_t { gfx9, gfx11, gfx12 };

/// Of "gfx942", "gfx11-generic"; nothing for chips of other families.
inline std::optional<Family> family_of(std::string_view chip) {
  if (chip.starts_with("gfx9")) return Family::gfx9;
  if (chip.starts_with("gfx11")) return Family::gfx11;
  if (chip.starts_with("gfx12")) return Family::gfx12;
  return std::nullopt;
}

constexpr Word bits(Word word, int high, int low) {
  return (word >> low) & ((Word{1} << (high - low + 1)) - 1);
}

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

}  // namespace regard::amd
