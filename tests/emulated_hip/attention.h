// A small attention of its own for tests of the emulator, so that what it must find can be broken.
#pragma once

#include <string>

namespace regard::test {

/// Causal attention of `rows` queries and keys with 32 columns in fp16, by waves of 64 lanes, one for each 32
/// queries; P stays in registers. Arguments: q, k, v, out (of fp32), rows.
std::string small_attention();

constexpr int small_attention_lds = 4096;

}  // namespace regard::test
