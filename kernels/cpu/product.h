// The matrix product inside every kernel: C[row][column] (+)= sum over k of A[row][k] * B[k][column], with A
// broadcast element by element and B and C in vectors along their columns. Where an instruction can multiply
// by one element of a vector (`by_element`), nothing is broadcast.
//
// Operands are arrays of 32-bit elements of depth k: single floats or, if the target can multiply them,
// pairs of bf16 that are neighbours along k (the lower k in the lower half).
//
// A matrix instruction multiplies quads, two such pairs: the numbers of 4 steps of k. A vector has the quads
// of two rows of A or of two columns of B, and a sum is 2 x 2 numbers. Operands are stored accordingly: A by
// pairs of rows, B (and A where its rows are contiguous) with the quad of each column in one place.
#pragma once

#include "kernels/cpu/convert.h"
#include "kernels/cpu/tile_sizes.h"

namespace regard {

/// Whether the tile unit computes products (amx_product.h). Decode has its own (decode_amx.h).
constexpr bool amx =
    target::amx && config::pack_gqa == 0 && (config::dtype == DType::bf16 || config::dtype == DType::fp16);

/// The unit multiplies only bf16. An fp16 number is the sum of two bf16 numbers: its operand is stored as
/// the high pieces followed by the low ones (split_bf16.h).
constexpr int pieces = amx && config::dtype == DType::fp16 ? 2 : 1;

constexpr bool vnni = amx || (config::dtype == DType::bf16 && target::bf16_dot);

/// Whether products are of quads. Not for decode, which reads K and V as they are stored.
constexpr bool quads = vnni && target::bf16_matrix && config::pack_gqa == 0;

/// How many operand elements n numbers fill, and how many they take including zero padding.
constexpr i64 filled_depth(i64 n) {
  return vnni ? ceil_divide(n, 2) : n;
}
constexpr i64 depth(i64 n) {
  return amx ? round_up(filled_depth(n), 16) : quads ? round_up(filled_depth(n), 2) : filled_depth(n);
}

/// Where the n-th column of a B operand begins in a step of its depth, and the n-th element of a row of A in
/// a row.
constexpr i64 place(i64 n) {
  return quads ? 2 * n : n;
}

/// sum + a * b. By value: g++ would keep a variable in memory if an asm statement has seen its address.
REGARD_INLINE Floats multiply_add(Floats sum, Floats a, Floats b) {
  if constexpr (vnni && target::neon) {
    Floats result;
    REGARD_ARM_ASM("bfdot %0.4s, %1.8h, %2.8h" : "=w"(result) : "w"(a), "w"(b), "0"(sum));
    return result;
  } else if constexpr (vnni) {
    Floats result;
    REGARD_X86_ASM("vdpbf16ps %2, %1, %0" : "=v"(result) : "v"(a), "v"(b), "0"(sum));
    return result;
  } else {
    return sum + a * b;
  }
}

/// sum + a[lane] * b, where an instruction takes an element of a vector.
template <int lane>
REGARD_INLINE Floats multiply_add_element(Floats sum, Floats a, Floats b) {
  Floats result;
  if constexpr (vnni)
    REGARD_ARM_ASM("bfdot %0.4s, %1.8h, %2.2h[%c3]" : "=w"(result) : "w"(b), "w"(a), "i"(lane), "0"(sum));
  else
    REGARD_ARM_ASM("fmla %0.4s, %1.4s, %2.s[%c3]" : "=w"(result) : "w"(b), "w"(a), "i"(lane), "0"(sum));
  return result;
}

/// sum + the product of two rows of 4 numbers and two columns.
REGARD_INLINE Floats multiply_add_quads(Floats sum, Floats rows, Floats columns) {
  Floats result;
  REGARD_ARM_ASM("bfmmla %0.4s, %1.8h, %2.8h" : "=w"(result) : "w"(rows), "w"(columns), "0"(sum));
  return result;
}

/// Two neighbours along k as one operand element: two bf16. A template, so that clang++ does not parse the
/// instructions of other targets.
template <class Vector>
REGARD_INLINE Vector pair_of(Vector low, Vector high) {
  if constexpr (target::bf16_convert && target::neon) {
    Floats result;
    REGARD_ARM_ASM("zip1 %0.8h, %1.8h, %2.8h" : "=w"(result) : "w"(bfloats(low)), "w"(bfloats(high)));
    return result;
  } else if constexpr (target::bf16_convert) {
    // 16-bit numbers 0, 16, 1, 17, ...
    const Words interleave = bits_as<Words>(lane_numbers()) * 0x10001u + (lanes << 16);
    Floats numbers, result;
    REGARD_X86_ASM("vcvtne2ps2bf16 %1, %2, %0" : "=v"(numbers) : "v"(low), "v"(high));
    REGARD_X86_ASM("vpermw %1, %2, %0" : "=v"(result) : "v"(numbers), "v"(interleave));
    return result;
  } else {
    const Words a = __builtin_convertvector(bfloats(low), Words);
    const Words b = __builtin_convertvector(bfloats(high), Words);
    return bits_as<Floats>(a | (b << 16));
  }
}

/// Stores the numbers of 4 steps of the depth, each for a vector of columns, as quads.
REGARD_INLINE void store_quads(float* to, Floats first, Floats second, Floats third, Floats fourth) {
  const Floats low = pair_of(first, second), high = pair_of(third, fourth);
  store(to, lanes_in_turn<false>(low, high, NumbersBelow<lanes>::type()));
  store(to + lanes, lanes_in_turn<true>(low, high, NumbersBelow<lanes>::type()));
}

/// Two neighbouring vectors as bf16, in order.
template <class Vector>
REGARD_INLINE void store_bfloats(u16* to, Vector low, Vector high) {
  if constexpr (target::bf16_convert && target::neon) {
    Floats numbers;
    REGARD_ARM_ASM("bfcvtn %0.4h, %1.4s\n\tbfcvtn2 %0.8h, %2.4s" : "=&w"(numbers) : "w"(low), "w"(high));
    store(to, numbers);
  } else if constexpr (target::bf16_convert) {
    Floats numbers;
    REGARD_X86_ASM("vcvtne2ps2bf16 %1, %2, %0" : "=v"(numbers) : "v"(low), "v"(high));
    store(to, numbers);
  } else {
    store(to, bfloats(low));
    store(to + lanes, bfloats(high));
  }
}

/// A compile-time constant as a type.
template <int number>
struct Count {
  static constexpr int value = number;
};

/// The machine that this kernel is compiled for.
constexpr TileMachine machine{.lanes = lanes,
                              .registers = target::vector_registers,
                              .by_element = target::neon,
                              .amx = amx,
                              .vnni = vnni,
                              .pieces = pieces,
                              .bytes = bytes_of<config::dtype>,
                              .d = config::d,
                              .dv = config::dv,
                              .words = config::bits || config::dropout};
constexpr int tile_rows = machine.sum_rows(), tile_vectors = machine.sum_vectors(),
              key_step = machine.key_step();

/// rows x vectors sums that are kept in registers.
template <int rows, int vectors>
struct RegisterTile {
  Floats sum[rows][vectors];

  REGARD_INLINE void clear() {
    REGARD_UNROLL
    for (int r = 0; r < rows; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) sum[r][v] = Floats{};
    }
  }

  REGARD_INLINE void load_from(const float* c, i64 row_stride) {
    REGARD_UNROLL
    for (int r = 0; r < rows; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) sum[r][v] = load<Floats>(c + r * row_stride + v * lanes);
    }
  }

  /// Row r times factor[r].
  REGARD_INLINE void scale_rows(const float* factor) {
    REGARD_UNROLL
    for (int r = 0; r < rows; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) sum[r][v] *= broadcast(factor[r]);
    }
  }

  /// Adds the previous values: last, so that the products are a separate sum (long_sum.h).
  REGARD_INLINE void add_from(const float* c, i64 row_stride) {
    REGARD_UNROLL
    for (int r = 0; r < rows; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) sum[r][v] += load<Floats>(c + r * row_stride + v * lanes);
    }
  }

  /// Adds C with each row r multiplied by factor[r].
  REGARD_INLINE void add_from(const float* c, i64 row_stride, const float* factor) {
    REGARD_UNROLL
    for (int r = 0; r < rows; ++r) {
      const Floats scale = broadcast(factor[r]);
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) sum[r][v] += load<Floats>(c + r * row_stride + v * lanes) * scale;
    }
  }

  REGARD_INLINE void store_to(float* c, i64 row_stride) const {
    REGARD_UNROLL
    for (int r = 0; r < rows; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) store(c + r * row_stride + v * lanes, sum[r][v]);
    }
  }

  /// A[row][k] is at a[row * row_stride + k * depth_stride], B[k] at b[k * b_stride]. One of A's strides
  /// is 1. (Quads: the same for even rows and steps.)
  REGARD_INLINE void add_product(const float* a, i64 row_stride, i64 depth_stride, const float* b,
                                 i64 b_stride, i64 count) {
    if constexpr (quads) return add_product_of_quads(a, row_stride, depth_stride, b, b_stride, count);
    i64 k = 0;
    if constexpr (machine.by_element && rows % lanes == 0) {
      if (row_stride == 1) return add_product_of_columns(a, depth_stride, b, b_stride, count);
      for (; k < count / lanes * lanes; k += lanes)
        add_elements(a + k, row_stride, b + k * b_stride, b_stride);
    }
    for (; k < count; ++k) {
      Floats columns[vectors];
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) columns[v] = load<Floats>(b + k * b_stride + v * lanes);
      REGARD_UNROLL
      for (int r = 0; r < rows; ++r) {
        const Floats element = broadcast(a[r * row_stride + k * depth_stride]);
        REGARD_UNROLL
        for (int v = 0; v < vectors; ++v) sum[r][v] = multiply_add(sum[r][v], element, columns[v]);
      }
    }
  }

  /// Adds `lanes` steps of the depth: lane l of elements[row] is A[row][l].
  REGARD_INLINE void add_elements(const Floats (&elements)[rows], const float* b, i64 b_stride) {
    add_steps(elements, b, b_stride, NumbersBelow<lanes>::type());
  }

  /// Adds one step of the depth: A[row] is at a[row].
  REGARD_INLINE void add_step(const float* a, const Floats (&columns)[vectors]) {
    REGARD_UNROLL
    for (int first = 0; first < rows; first += lanes)
      add_row_vector(first, load<Floats>(a + first), columns, NumbersBelow<lanes>::type());
  }

 private:
  REGARD_INLINE void add_product_of_quads(const float* a, i64 row_stride, i64 depth_stride, const float* b,
                                          i64 b_stride, i64 count) {
    constexpr int row_pairs = (rows + 1) / 2;
    Floats square[row_pairs][2 * vectors];  // rows 2 p and 2 p + 1 by columns 2 c and 2 c + 1
    REGARD_UNROLL
    for (int p = 0; p < row_pairs; ++p) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) {
        square[p][2 * v] = sum[2 * p][v];
        square[p][2 * v + 1] = rows > 1 ? sum[2 * p + (rows > 1)][v] : Floats{};
        swap_squares<2>(square[p][2 * v], square[p][2 * v + 1], NumbersBelow<lanes>::type());
      }
    }
    const i64 pair_stride = row_stride == 1 ? lanes : 2 * row_stride;
    const i64 step_stride = row_stride == 1 ? 2 * depth_stride : lanes;
    for (; count > 0; count -= 2, a += step_stride, b += 2 * b_stride) {
      Floats two_rows[row_pairs];
      REGARD_UNROLL
      for (int p = 0; p < row_pairs; ++p)
        two_rows[p] =
            rows == 1 ? bits_as<Floats>(Doublewords{} + load<u64>(a)) : load<Floats>(a + p * pair_stride);
      REGARD_UNROLL
      for (int c = 0; c < 2 * vectors; ++c) {
        const Floats two_columns = load<Floats>(b + c * lanes);
        REGARD_UNROLL
        for (int p = 0; p < row_pairs; ++p)
          square[p][c] = multiply_add_quads(square[p][c], two_rows[p], two_columns);
      }
    }
    REGARD_UNROLL
    for (int p = 0; p < row_pairs; ++p) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) {
        swap_squares<2>(square[p][2 * v], square[p][2 * v + 1], NumbersBelow<lanes>::type());
        sum[2 * p][v] = square[p][2 * v];
        if constexpr (rows > 1) sum[2 * p + 1][v] = square[p][2 * v + 1];
      }
    }
  }

  /// The same where the depth is contiguous in A.
  REGARD_INLINE void add_elements(const float* a, i64 row_stride, const float* b, i64 b_stride) {
    Floats elements[rows];
    REGARD_UNROLL
    for (int r = 0; r < rows; ++r) elements[r] = load<Floats>(a + r * row_stride);
    add_elements(elements, b, b_stride);
  }
  template <int... lane>
  REGARD_INLINE void add_steps(const Floats (&elements)[rows], const float* b, i64 b_stride,
                               Numbers<lane...>) {
    (add_element_step<lane>(elements, b + lane * b_stride), ...);
  }
  template <int lane>
  REGARD_INLINE void add_element_step(const Floats (&elements)[rows], const float* b) {
    Floats columns[vectors];
    REGARD_UNROLL
    for (int v = 0; v < vectors; ++v) columns[v] = load<Floats>(b + v * lanes);
    REGARD_UNROLL
    for (int r = 0; r < rows; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v)
        sum[r][v] = multiply_add_element<lane>(sum[r][v], elements[r], columns[v]);
    }
  }

  /// The rows are contiguous in A.
  REGARD_INLINE void add_product_of_columns(const float* a, i64 depth_stride, const float* b, i64 b_stride,
                                            i64 count) {
    for (; count > 0; --count, a += depth_stride, b += b_stride) {
      Floats columns[vectors];
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) columns[v] = load<Floats>(b + v * lanes);
      add_step(a, columns);
    }
  }
  template <int... lane>
  REGARD_INLINE void add_row_vector(int first, Floats elements, const Floats (&columns)[vectors],
                                    Numbers<lane...>) {
    REGARD_UNROLL
    for (int v = 0; v < vectors; ++v)
      ((sum[first + lane][v] = multiply_add_element<lane>(sum[first + lane][v], elements, columns[v])), ...);
  }
};

}  // namespace regard
