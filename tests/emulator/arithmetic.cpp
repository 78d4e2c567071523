// Numbers: functions, conversions, bits.
#include <cmath>

#include "emulator/instructions.h"
#include "emulator/numbers.h"

namespace emulator {
namespace {

using Instruction = ptx::Instruction;

template <float (*function)(float)>
void apply(Execution& e, const Instruction& i) {
  e.set_float(i.operands[0], function(e.get_float(i.operands[1])));
}
float power(float x) {
  return flushed(std::exp2(x));
}
float logarithm(float x) {
  return std::log2(x);
}
float reciprocal(float x) {
  return flushed(1 / flushed(x));
}

/// The second source goes to the low half.
template <regard_dtype dtype, int bits, std::uint32_t (*round)(regard_dtype, float)>
void to_pair(Execution& e, const Instruction& i) {
  e.set(i.operands[0], round(dtype, e.get_float(i.operands[2])) | round(dtype, e.get_float(i.operands[1]))
                                                                      << bits);
}

void to_half(Execution& e, const Instruction& i) {
  e.set(i.operands[0], encoded(REGARD_FP16, e.get_float(i.operands[1])));
}
void of_half(Execution& e, const Instruction& i) {
  e.set_float(i.operands[0], decoded(REGARD_FP16, static_cast<std::uint32_t>(e.get(i.operands[1]) & 0xffff)));
}

template <regard_dtype dtype>
void halves_of(Execution& e, const Instruction& i) {
  const auto both = static_cast<std::uint32_t>(e.get(i.operands[1]));
  e.set(i.operands[0], encoded(REGARD_FP16, decoded(dtype, both & 0xff)) |
                           encoded(REGARD_FP16, decoded(dtype, both >> 8 & 0xff)) << 16);
}

/// The larger of two numbers; of a number and NaN, the number.
template <regard_dtype dtype>
void larger_pair(Execution& e, const Instruction& i) {
  const std::uint64_t a = e.get(i.operands[1]), b = e.get(i.operands[2]);
  std::uint32_t most = 0;
  for (int shift : {0, 16}) {
    const float x = decoded(dtype, a >> shift & 0xffff), y = decoded(dtype, b >> shift & 0xffff);
    most |= encoded(dtype, std::fmax(x, y)) << shift;
  }
  e.set(i.operands[0], most);
}

template <regard_dtype dtype>
void subtract_pair(Execution& e, const Instruction& i) {
  const std::uint64_t a = e.get(i.operands[1]), b = e.get(i.operands[2]);
  std::uint32_t both = 0;
  for (int shift : {0, 16})
    both |= encoded(dtype, decoded(dtype, a >> shift & 0xffff) - decoded(dtype, b >> shift & 0xffff))
            << shift;
  e.set(i.operands[0], both);
}

void move(Execution& e, const Instruction& i) {
  e.set(i.operands[0], e.get(i.operands[1]));
}
/// Joins two halves, the low one first, or splits into them.
template <int bits>
void join_or_part(Execution& e, const Instruction& i) {
  constexpr std::uint64_t low = (std::uint64_t{1} << bits) - 1;
  if (i.operands[0].kind == ptx::Operand::Kind::vector) {
    const std::uint64_t both = e.get(i.operands[1]);
    e.set(i.operands[0].parts.at(0), both & low);
    e.set(i.operands[0].parts.at(1), both >> bits);
    return;
  }
  if (i.operands[1].kind != ptx::Operand::Kind::vector) return move(e, i);
  const auto half = [&](std::size_t n) { return e.get(i.operands[1].parts.at(n)) & low; };
  e.set(i.operands[0], half(0) | half(1) << bits);
}
/// Two 32-bit numbers, multiplied in 64 bits.
void multiply_wide(Execution& e, const Instruction& i) {
  e.set(i.operands[0], (e.get(i.operands[1]) & 0xffffffff) * (e.get(i.operands[2]) & 0xffffffff));
}
/// Selects four of eight bytes, whose numbers are digits of the last source; a digit of 8 or more gives the
/// byte's highest bit eight times.
void permute(Execution& e, const Instruction& i) {
  const std::uint64_t both = (e.get(i.operands[1]) & 0xffffffff) | e.get(i.operands[2]) << 32,
                      digits = e.get(i.operands[3]);
  std::uint64_t result = 0;
  for (int n = 0; n < 4; ++n) {
    const std::uint64_t digit = digits >> 4 * n & 15, byte = both >> 8 * (digit & 7) & 0xff;
    result |= (digit < 8 ? byte : byte < 128 ? 0 : 0xff) << 8 * n;
  }
  e.set(i.operands[0], result);
}
void differ(Execution& e, const Instruction& i) {
  e.set(i.operands[0],
        static_cast<std::uint32_t>(e.get(i.operands[1])) != static_cast<std::uint32_t>(e.get(i.operands[2])));
}
void jump(Execution& e, const Instruction& i) {
  e.jump(i.operands[0].number);
}

/// A mask of bits that starts at the first source, with as many bits as the second says.
void mask(Execution& e, const Instruction& i) {
  const auto from = static_cast<std::uint32_t>(e.get(i.operands[1])),
             count = static_cast<std::uint32_t>(e.get(i.operands[2]));
  const std::uint64_t bits = count >= 32 ? 0xffffffff : (std::uint64_t{1} << count) - 1;
  e.set(i.operands[0], from >= 32 ? 0 : bits << from & 0xffffffff);
}

void smaller_or_nan(Execution& e, const Instruction& i) {
  const auto number = [&](std::size_t n) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(e.get(i.operands[n])));
  };
  const float x = number(1), y = number(2);
  e.set(i.operands[0], std::bit_cast<std::uint32_t>(x != x || x < y ? x : y));
}

}  // namespace

std::span<const Named> arithmetic_instructions() {
  static constexpr Named table[] = {
      {"ex2.approx.ftz.f32", apply<power>},
      {"lg2.approx.f32", apply<logarithm>},
      {"rcp.approx.ftz.f32", apply<reciprocal>},
      {"cvt.rn.bf16x2.f32", to_pair<REGARD_BF16, 16, encoded>, 80},
      {"cvt.rn.f16x2.f32", to_pair<REGARD_FP16, 16, encoded>, 80},
      {"cvt.rn.satfinite.e4m3x2.f32", to_pair<REGARD_FP8, 8, encoded_finite>, 89},
      {"cvt.rn.satfinite.e5m2x2.f32", to_pair<REGARD_FP8_E5M2, 8, encoded_finite>, 89},
      {"cvt.rn.f16.f32", to_half},
      {"cvt.f32.f16", of_half},
      {"cvt.rn.f16x2.e4m3x2", halves_of<REGARD_FP8>, 89},
      {"cvt.rn.f16x2.e5m2x2", halves_of<REGARD_FP8_E5M2>, 89},
      {"min.NaN.f32", smaller_or_nan, 80},
      {"max.f16x2", larger_pair<REGARD_FP16>, 80},
      {"max.bf16x2", larger_pair<REGARD_BF16>, 80},
      {"sub.f16x2", subtract_pair<REGARD_FP16>},
      {"mov.u32", move},
      {"mov.b32", join_or_part<16>},
      {"mov.b64", join_or_part<32>},
      {"mul.wide.u32", multiply_wide},
      {"prmt.b32", permute},
      {"setp.ne.b32", differ},
      {"bra", jump},
      {"bmsk.clamp.b32", mask},
  };
  return table;
}

}  // namespace emulator
