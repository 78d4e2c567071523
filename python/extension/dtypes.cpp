#include "dtypes.h"

#include <cstdint>
#include <string>

#include "base/text.h"
#include "roles.h"
#include "status.h"

namespace regard::python {
namespace {

using nb::dlpack::dtype_code;

struct DTypeRow {
  regard_dtype dtype;
  const char* word;
  std::string_view name;  // in PyTorch, ml_dtypes and NumPy
  dtype_code code;
  std::uint8_t bits;
};
constexpr auto dlpack_code(int number) {
  return static_cast<dtype_code>(number);  // of DLPack's 8-bit floats, which nanobind does not name
}
constexpr DTypeRow dtypes[] = {
    {REGARD_FP32, "fp32", "float32", dtype_code::Float, 32},
    {REGARD_BF16, "bf16", "bfloat16", dtype_code::Bfloat, 16},
    {REGARD_FP16, "fp16", "float16", dtype_code::Float, 16},
    {REGARD_FP8, "fp8", "float8_e4m3fn", dlpack_code(10), 8},
    {REGARD_FP8_E5M2, "fp8_e5m2", "float8_e5m2", dlpack_code(12), 8},
    {REGARD_FP8_FNUZ, "fp8_fnuz", "float8_e4m3fnuz", dlpack_code(11), 8},
    {REGARD_FP8_E5M2_FNUZ, "fp8_e5m2_fnuz", "float8_e5m2fnuz", dlpack_code(13), 8},
    {REGARD_INT8, "int8", "int8", dtype_code::Int, 8},
    {REGARD_INT32, "int32", "int32", dtype_code::Int, 32},
    {REGARD_UINT32, "uint32", "uint32", dtype_code::UInt, 32},
    {REGARD_UINT8, "uint8", "uint8", dtype_code::UInt, 8},
    {REGARD_UINT64, "uint64", "uint64", dtype_code::UInt, 64},
    {REGARD_INT64, "int64", "int64", dtype_code::Int, 64},
};

const DTypeRow& row_of(regard_dtype dtype) {
  for (const DTypeRow& row : dtypes)
    if (row.dtype == dtype) return row;
  return dtypes[0];
}

std::string describe(nb::dlpack::dtype type) {
  const char* kind = "type";
  switch (static_cast<dtype_code>(type.code)) {
    case dtype_code::Int:
      kind = "int";
      break;
    case dtype_code::UInt:
      kind = "uint";
      break;
    case dtype_code::Float:
      kind = "float";
      break;
    case dtype_code::Bfloat:
      kind = "bfloat";
      break;
    case dtype_code::Complex:
      kind = "complex";
      break;
    case dtype_code::Bool:
      return "bool";
    default:
      kind = "float8 or another type of bits: ";
      break;
  }
  return kind + std::to_string(type.bits) + (type.lanes != 1 ? "x" + std::to_string(type.lanes) : "");
}

/// What every array library has. Other types may be given as integers: bf16 and fp8 in NumPy, uint32 and
/// uint64 elsewhere.
bool is_everywhere(regard_dtype dtype) {
  return dtype == REGARD_FP32 || dtype == REGARD_FP16 || dtype == REGARD_INT8 || dtype == REGARD_INT32 ||
         dtype == REGARD_INT64;
}

bool stands_for(nb::dlpack::dtype type, const DTypeRow& expected) {
  const auto code = static_cast<dtype_code>(type.code);
  const bool integer = code == dtype_code::Int || code == dtype_code::UInt;
  const bool byte_flag = code == dtype_code::Bool && expected.dtype == REGARD_UINT8;
  return type.bits == expected.bits && type.lanes == 1 &&
         ((integer && !is_everywhere(expected.dtype)) || byte_flag);
}

}  // namespace

const char* dtype_word(regard_dtype dtype) {
  return row_of(dtype).word;
}

regard_dtype dtype_from_word(std::string_view word) {
  for (const DTypeRow& row : dtypes)
    if (row.word == word) return row.dtype;
  raise(REGARD_INVALID, "unknown dtype " + in_quotes(word) +
                            "; dtypes are fp32, bf16, fp16, fp8, fp8_e5m2, fp8_fnuz, fp8_e5m2_fnuz");
}

nb::dlpack::dtype dlpack_type(regard_dtype dtype) {
  const DTypeRow& row = row_of(dtype);
  return {static_cast<std::uint8_t>(row.code), row.bits, 1};
}

std::optional<nb::dlpack::dtype> type_named(std::string_view name) {
  for (const DTypeRow& row : dtypes)
    if (row.name == name) return dlpack_type(row.dtype);
  if (name == "bool") return nb::dlpack::dtype{static_cast<std::uint8_t>(dtype_code::Bool), 8, 1};
  return {};
}

regard_dtype dtype_of(nb::dlpack::dtype type, regard_dtype required, regard_role role) {
  const DTypeRow& expected = row_of(required);
  if (stands_for(type, expected)) return expected.dtype;
  for (const DTypeRow& row : dtypes) {
    // A type that attention computes in, or the right one, needs no advice.
    const bool rare = row.dtype == REGARD_INT8 || row.dtype == REGARD_INT64;
    const bool wide = row.dtype == REGARD_INT64 && required == REGARD_INT32 && is_captured(role);
    if (rare && row.dtype != required && !wide) continue;
    if (static_cast<std::uint8_t>(row.code) == type.code && row.bits == type.bits && type.lanes == 1)
      return row.dtype;
  }
  const char* advice = "";
  const bool boolean = static_cast<dtype_code>(type.code) == dtype_code::Bool;
  if (boolean && (role == REGARD_BITS || role == REGARD_BIAS))
    advice = "; regard.pack_bits(mask) turns a boolean mask into what bits= takes";
  else if (!boolean && expected.dtype == REGARD_INT32)
    advice = "; convert it first, as PyTorch's x.to(torch.int32) does";
  raise(REGARD_INVALID, std::string(regard_role_name(role)) + " has dtype " + describe(type) +
                            " where the problem takes " + expected.word + advice);
}

}  // namespace regard::python
