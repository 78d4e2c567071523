// Conversions between rows in memory, whose dtype is known only at run time, and fp32 tiles.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/generic_layout.h"
#include "kernels/sequence.h"

namespace regard::generic {

/// fp32 as an 8-bit float, to nearest even. Only OCP's e5m2 has infinity: numbers that are too large for
/// another type become its largest number.
template <DType dtype>
inline u8 eight_bits_of_float(float value) {
  using Bits = EightBits<dtype>;
  constexpr u32 overflow = dtype == DType::fp8_e5m2 ? 0x7c : Bits::largest;
  const u32 all = bits_as<u32>(value), magnitude = all & 0x7fffffffu, sign = (all >> 24) & 0x80u;
  if (magnitude > 0x7f800000u) return static_cast<u8>(sign | Bits::not_a_number);
  constexpr int dropped = 23 - Bits::mantissa, bias = Bits::bias;
  u32 bits;
  if (magnitude < static_cast<u32>(128 - bias) << 23) {
    // Below the smallest normal number: the sum leaves the subnormal's bits, rounded, at the bottom of the
    // word.
    constexpr u32 one = static_cast<u32>(127 + 1 - bias + dropped) << 23;
    bits = bits_as<u32>(bits_as<float>(magnitude) + bits_as<float>(one)) - one;
  } else {
    const u32 rounded = magnitude + (1u << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1u);
    bits = (rounded >> dropped) - (static_cast<u32>(127 - bias) << Bits::mantissa);
    if (bits > Bits::largest) bits = overflow;
  }
  return static_cast<u8>(Bits::fnuz && bits == 0 ? 0 : sign | bits);
}

template <DType dtype>
void load_row_of(float* to, const u8* from, i64 n) {
  i64 i = 0;
  for (; i + lanes <= n; i += lanes) store(to + i, load_floats<dtype>(from + i * bytes_of<dtype>));
  for (; i < n; ++i) to[i] = load_scalar<dtype>(from, i);
}

/// to[0, n) = from[0, n).
inline void load_row(float* to, const u8* from, i32 dtype, i64 n) {
  switch (static_cast<DType>(dtype)) {
    case DType::fp32:
      return load_row_of<DType::fp32>(to, from, n);
    case DType::bf16:
      return load_row_of<DType::bf16>(to, from, n);
    case DType::fp16:
      return load_row_of<DType::fp16>(to, from, n);
    case DType::fp8:
      return load_row_of<DType::fp8>(to, from, n);
    case DType::fp8_e5m2:
      return load_row_of<DType::fp8_e5m2>(to, from, n);
    case DType::fp8_fnuz:
      return load_row_of<DType::fp8_fnuz>(to, from, n);
    case DType::fp8_e5m2_fnuz:
      return load_row_of<DType::fp8_e5m2_fnuz>(to, from, n);
    case DType::int8:
      return load_row_of<DType::int8>(to, from, n);
  }
}

template <DType dtype>
void store_row_of(u8* to, const float* from, float factor, i64 n) {
  i64 i = 0;
  for (; i + lanes <= n; i += lanes)
    store_floats<dtype>(to + i * bytes_of<dtype>, load<Floats>(from + i) * factor);
  for (; i < n; ++i) store_scalar<dtype>(to, i, from[i] * factor);
}

template <DType dtype>
void store_eight_bits(u8* to, const float* from, float factor, i64 n) {
  for (i64 i = 0; i < n; ++i) to[i] = eight_bits_of_float<dtype>(from[i] * factor);
}

/// to[0, n) = from[0, n) * factor.
inline void store_row(u8* to, const float* from, float factor, i32 dtype, i64 n) {
  switch (static_cast<DType>(dtype)) {
    case DType::fp32:
      return store_row_of<DType::fp32>(to, from, factor, n);
    case DType::bf16:
      return store_row_of<DType::bf16>(to, from, factor, n);
    case DType::fp16:
      return store_row_of<DType::fp16>(to, from, factor, n);
    case DType::fp8:
      return store_eight_bits<DType::fp8>(to, from, factor, n);
    case DType::fp8_e5m2:
      return store_eight_bits<DType::fp8_e5m2>(to, from, factor, n);
    case DType::fp8_fnuz:
      return store_eight_bits<DType::fp8_fnuz>(to, from, factor, n);
    case DType::fp8_e5m2_fnuz:
      return store_eight_bits<DType::fp8_e5m2_fnuz>(to, from, factor, n);
    case DType::int8:  // no output has this type
      return;
  }
}

/// A tensor of a run-time dtype.
inline u8* address(const Rows& rows, i32 dtype, i64 batch, i64 head, i64 row) {
  return static_cast<u8*>(rows.data) + element_of(rows, batch, head, row) * bytes_of_dtype(dtype);
}

/// Rows in memory, each of `columns` elements, from which a tile is loaded.
struct TileSource {
  const Rows& rows;
  i32 dtype;
  i64 batch, head, first, count, columns;
};

/// tile[row][padded(columns)], with zeros in the padding and in the rows past the last, up to `capacity`.
inline void load_tile(float* tile, const TileSource& source, i64 capacity) {
  const i64 width = GenericLayout::padded(source.columns);
  for (i64 i = 0; i < capacity; ++i) {
    float* row = tile + i * width;
    if (i >= source.count) {
      __builtin_memset(row, 0, static_cast<u64>(width) * 4);
      continue;
    }
    load_row(row, address(source.rows, source.dtype, source.batch, source.head, source.first + i),
             source.dtype, source.columns);
    for (i64 c = source.columns; c < width; ++c) row[c] = 0;
  }
}

/// columns[column][tile_keys] of a tile [key][padded(columns)].
REGARD_OPTIMIZE inline void transpose_tile(float* columns, const float* tile, i64 count) {
  const i64 width = GenericLayout::padded(count);
  constexpr i64 step = 16;  // small squares stay in the cache
  for (i64 first = 0; first < width; first += step)
    for (i64 key = 0; key < GenericLayout::tile_keys; ++key)
      for (i64 c = first; c < first + step; ++c)
        columns[c * GenericLayout::tile_keys + key] = tile[key * width + c];
}

}  // namespace regard::generic
