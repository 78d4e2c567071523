// The tile of decode.cu: 16 packed rows, and one or two groups of 16 keys for each wave of the block.
#pragma once

#include "kernels/machine/matrix.h"
#include "kernels/portable/decode_layout.h"
#include "kernels/portable/score_tile.h"

namespace regard {

constexpr portable::DecodeLayout layout(config::dv, bytes_of<config::kv>, config::warps, config::row_max);
constexpr i32 groups = wave_keys / depth;  // of keys that a product with V takes
static_assert(block_q == layout.rows && across == config::warps && row_tiles == 1 && Fragment::columns == 8);
static_assert(wave_keys == groups * depth && wave_keys <= wave);

/// The type of the products: 8-bit numbers are exact in fp16, and Q is scaled by powers of two to fit
/// (decode_rows.h).
constexpr i32 stored_bytes = bytes_of<config::kv>;
constexpr DType multiplied = stored_bytes == 1 ? DType::fp16 : config::dtype;
static_assert(bytes_of<config::dtype> == 2 && stored_bytes <= 2);

/// Numbers of a word, and of the vector of 16 bytes of K that a lane reads; four lanes read `chunk_columns`.
constexpr i32 of_word = 4 / stored_bytes, of_vector = 16 / stored_bytes, chunk_columns = 4 * of_vector;
constexpr i32 chunks = (config::d + chunk_columns - 1) / chunk_columns;
/// A product takes four columns from each lane.
constexpr i32 steps_of_chunk = of_vector / 4, steps = chunks * steps_of_chunk;
static_assert(config::d % of_vector == 0);

/// Words and numbers of the vector of V that a lane reads; eight lanes read `reads` times a row.
constexpr i32 words_of_v = static_cast<i32>(layout.vector) / 4, numbers_of_v = words_of_v * of_word;
constexpr i32 reads = static_cast<i32>(layout.columns) / (8 * numbers_of_v);
static_assert(config::dv % numbers_of_v == 0);

/// Column tile i of a read has the i-th number of each of the eight lanes' vectors. So x[half][n] of a
/// thread's tiles are the neighbouring columns of one vector, that of lane column() + n.
using DecodeOutput = Fragment[reads][numbers_of_v];

}  // namespace regard
