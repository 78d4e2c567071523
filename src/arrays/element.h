// Element types of array files, and rounding between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "regard/regard.h"

namespace regard {

// X(enumerator, bytes, .npy descr, safetensors dtype, description). NumPy has no bf16 and no fp8: .npy files
// hold them as the unsigned integer (or the void type that ml_dtypes writes) of the same size.
#define REGARD_ELEMENTS(X)                                \
  X(f64, 8, "<f8", "F64", "float64")                      \
  X(f32, 4, "<f4", "F32", "float32")                      \
  X(f16, 2, "<f2", "F16", "float16")                      \
  X(bf16, 2, "", "BF16", "bfloat16")                      \
  X(f8_e4m3, 1, "", "F8_E4M3", "float8_e4m3")             \
  X(f8_e5m2, 1, "", "F8_E5M2", "float8_e5m2")             \
  X(f8_e4m3fnuz, 1, "", "F8_E4M3FNUZ", "float8_e4m3fnuz") \
  X(f8_e5m2fnuz, 1, "", "F8_E5M2FNUZ", "float8_e5m2fnuz") \
  X(i64, 8, "<i8", "I64", "int64")                        \
  X(i32, 4, "<i4", "I32", "int32")                        \
  X(i8, 1, "|i1", "I8", "int8")                           \
  X(u64, 8, "<u8", "U64", "uint64")                       \
  X(u32, 4, "<u4", "U32", "uint32")                       \
  X(u16, 2, "<u2", "U16", "uint16")                       \
  X(u8, 1, "|u1", "U8", "uint8")                          \
  X(raw16, 2, "<V2", "", "two raw bytes (void)")          \
  X(raw8, 1, "|V1", "", "one raw byte (void)")

enum class Element : std::uint8_t {
#define REGARD_ENUMERATOR(name, bytes, npy, safetensors, doc) name,
  REGARD_ELEMENTS(REGARD_ENUMERATOR)
#undef REGARD_ENUMERATOR
};

struct ElementInfo {
  Element element;
  std::int64_t bytes;
  std::string_view npy, safetensors, name;
};
std::span<const ElementInfo> element_table();
const ElementInfo& info(Element);

Element element_of(regard_dtype);
bool is_eight_bit_float(Element);

/// An array in a file: a view of the file's bytes, row-major, little-endian.
struct ArrayView {
  Element element = Element::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// The elements times the bytes of each, or nothing when a size is negative or the product overflows.
std::optional<std::int64_t> bytes_of(Element, std::span<const std::int64_t> shape);

/// Whether the bits of a `from` are valid as those of a `to`: the same type, or bf16 and fp8 as raw integers.
bool same_bits(Element from, Element to);

bool is_float(Element);

/// Values of `from` rounded to nearest even as `to`: between float types, and between integer types where
/// every value fits. `to_bytes` holds as many elements as `from_bytes`.
Status convert(Element from, std::span<const std::byte> from_bytes, Element to,
               std::span<std::byte> to_bytes);

/// The bits of a value rounded to a narrow float type.
std::uint32_t narrow(Element, float value);
float widen(Element, std::uint32_t bits);

/// "[2,16,1024,128]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace regard
