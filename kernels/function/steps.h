// A function as a list of steps, which the generic kernels interpret one by one
// (kernels/cpu/function_rows.h), with the tensors of a call. The engine fills it in
// (src/engine/bind_function.cpp).
#pragma once

#include "kernels/arguments.h"
#include "kernels/function/operations.h"
#include "kernels/function/written_bits.h"

namespace regard {

/// A node of the function's tree; operands are earlier steps.
struct FunctionStep {
  function::Kind kind;
  function::Type type;     // of the result
  function::Type operand;  // the type of the first operand
  u8 which, count;         // a variable, tensor or operation; operands
  bool by_row, by_key;     // whether it depends on the row, on the key
  u32 bits;                // of a constant
  i32 operands[4];
};

/// A captured tensor; `gradient` has the same sizes, or is null.
struct CapturedTensor {
  const void* data;
  float* gradient;
  i32 dtype;  // enum regard_dtype of include/regard/regard.h
  i32 dimensions;
  i64 sizes[4], strides[4], gradient_strides[4];
};

/// The derivative of the score with respect to the number that a step loads.
struct FunctionDerivative {
  i32 load, derivative;
};

/// The functions of a call. Steps up to `end_of_values` are those of the score and the mask, the rest those
/// of derivatives.
struct FunctionCall {
  const FunctionStep* steps;
  const FunctionDerivative* derivatives;
  i32 count, end_of_values, derivative_count;
  i32 score, keep, slope;  // steps with these results; -1: none
  i32 begin, end;          // likewise, of the range of keys that a row sees
  CapturedTensor tensors[8];
};

/// The schedule of the generic kernels.
struct GenericSchedule : WrittenBits {
  const FunctionCall* function;  // null: none
  i64 steps;                     // of the function: scratch memory is proportional to them
  i32* ranges_to_write;          // Arguments::ranges, for a stage that writes them; null: none
};

}  // namespace regard
