// Interprets the functions of a call: each step of a function is computed for 64 keys of a row.
#pragma once

#include "kernels/cpu/generic_convert.h"
#include "kernels/function/scalar.h"
#include "kernels/function/steps.h"

namespace regard::generic {

/// A row of the score matrix, and the first of its keys. Lanes are keys; or, for what does not depend on the
/// key, rows from this one on.
struct FunctionPlace {
  i64 batch, head, kv_head, row, first_key;
  const Sequence& sequence;
  bool lanes_are_rows = false;
};

class FunctionRows {
 public:
  static constexpr i64 keys = GenericLayout::tile_keys;

  /// `values`: scratch memory for `keys` words of each step.
  FunctionRows(const Arguments& a, const FunctionCall* call, float* values)
      : a_(a), call_(call), values_(reinterpret_cast<u32*>(values)) {}

  bool present() const { return call_ != nullptr; }
  bool has_score() const { return present() && call_->score >= 0; }
  const FunctionCall& call() const { return *call_; }

  /// Applies the functions to a row of scores: each becomes the function's result, or -infinity where the
  /// mask hides the key. `slopes` gets the derivatives of the score function, unless it is null.
  REGARD_NOINLINE void apply(const FunctionPlace& place, float* scores, float* slopes) {
    const FunctionCall& f = *call_;
    run(place, scores, 0, f.end_of_values);
    if (slopes && f.score >= 0) {
      run(place, scores, f.end_of_values, f.count);
      copy(reinterpret_cast<u32*>(slopes), row(f.slope));
    }
    if (f.score >= 0) copy(reinterpret_cast<u32*>(scores), row(f.score));
    if (f.keep < 0) return;
    const u32* const kept = row(f.keep);
    for (i64 i = 0; i < keys; ++i)
      if (kept[i] == 0) scores[i] = -infinity;
  }

  /// Adds a row's gradients of scores, times the derivatives, to those of the captured tensors; called after
  /// `apply` with slopes.
  REGARD_NOINLINE void add_gradients(const float* grads) {
    for (i32 k = 0; k < call_->derivative_count; ++k) {
      const FunctionDerivative& one = call_->derivatives[k];
      const FunctionStep& load = call_->steps[one.load];
      add_gradient(load, call_->tensors[load.which], reinterpret_cast<const float*>(row(one.derivative)),
                   grads);
    }
  }

 protected:
  const Arguments& a_;

  /// The results of a step, one for each lane.
  u32* row(i32 step) { return values_ + step * keys; }
  static void fill(u32* to, u32 bits) {
    for (i64 i = 0; i < keys; ++i) to[i] = bits;
  }

  void compute(const FunctionPlace& place, const float* scores, i32 i) {
    const FunctionStep& step = call_->steps[i];
    switch (step.kind) {
      case function::Kind::constant:
      case function::Kind::number:
        return fill(row(i), step.bits);
      case function::Kind::variable:
        return variable(place, scores, static_cast<function::Variable>(step.which), row(i));
      case function::Kind::load:
        return load(place, step, call_->tensors[step.which], row(i));
      case function::Kind::operation:
        return operation(step, row(i));
    }
  }

 private:
  static void copy(u32* to, const u32* from) { __builtin_memcpy(to, from, keys * 4); }

  void run(const FunctionPlace& place, const float* scores, i32 begin, i32 end) {
    for (i32 i = begin; i < end; ++i) compute(place, scores, i);
  }

  static void count_from(u32* to, i64 first) {
    for (i64 i = 0; i < keys; ++i) to[i] = static_cast<u32>(first + i);
  }

  void variable(const FunctionPlace& at, const float* scores, function::Variable variable, u32* to) {
    const auto whole = [&](i64 value) { fill(to, static_cast<u32>(value)); };
    const auto of_row = [&](i64 value) { at.lanes_are_rows ? count_from(to, value) : whole(value); };
    switch (variable) {
      case function::Variable::s:
        return copy(to, reinterpret_cast<const u32*>(scores));
      case function::Variable::b:
        return whole(at.batch);
      case function::Variable::h:
        return whole(at.head);
      case function::Variable::hk:
        return whole(at.kv_head);
      case function::Variable::q:
        return of_row(at.row);
      case function::Variable::kv:
        return count_from(to, at.first_key);
      case function::Variable::p:
        return of_row(at.row + at.sequence.bottom_right());
      case function::Variable::sq:
        return whole(at.sequence.sq);
      case function::Variable::sk:
        return whole(at.sequence.sk);
      case function::Variable::tq:
        return of_row((a_.offsets_q ? at.sequence.first_q : at.batch * a_.sq) + at.row);
      case function::Variable::tk:
        return count_from(to, (a_.offsets_k ? at.sequence.first_k : at.batch * a_.sk) + at.first_key);
    }
  }

  /// The offset of the element that a key reads, in elements; indices are clamped to the tensor.
  i64 place_of(const FunctionStep& step, const CapturedTensor& tensor, const i64* strides, i64 key) {
    i64 place = 0;
    for (i32 k = 0; k < step.count; ++k) {
      const i64 index = function::signed_of(row(step.operands[k])[key]);
      place += larger<i64>(0, smaller(index, tensor.sizes[k] - 1)) * strides[k];
    }
    return place;
  }

  void load(const FunctionPlace& at, const FunctionStep& step, const CapturedTensor& tensor, u32* to) {
    const bool differ = at.lanes_are_rows ? step.by_row : step.by_key;
    if (!differ) return fill(to, number_at(step, tensor, place_of(step, tensor, tensor.strides, 0)));
    for (i64 i = 0; i < keys; ++i) to[i] = number_at(step, tensor, place_of(step, tensor, tensor.strides, i));
  }

  static u32 number_at(const FunctionStep& step, const CapturedTensor& tensor, i64 place) {
    const u8* const bytes = static_cast<const u8*>(tensor.data);
    if (tensor.dtype == function::captured_uint8)
      return step.type == function::Type::boolean ? bytes[place] != 0 : bytes[place];
    if (tensor.dtype == function::captured_int64)
      return static_cast<u32>(static_cast<const i64*>(tensor.data)[place]);
    if (step.type == function::Type::integer) return static_cast<const u32*>(tensor.data)[place];
    float number = 0;
    load_row(&number, bytes + place * bytes_of_dtype(tensor.dtype), tensor.dtype, 1);
    return bits_as<u32>(number);
  }

  void add_gradient(const FunctionStep& load, const CapturedTensor& tensor, const float* derivative,
                    const float* grads) {
    i64 at[keys];
    bool same = true;
    for (i64 i = 0; i < keys; ++i) {
      at[i] = place_of(load, tensor, tensor.gradient_strides, i);
      same &= at[i] == at[0];
    }
    double sum = 0;  // over all keys, if they read the same element
    for (i64 i = 0; i < keys; ++i) {
      if (grads[i] == 0) continue;  // even if the derivative is infinite or NaN
      if (same)
        sum += static_cast<double>(grads[i]) * derivative[i];
      else
        tensor.gradient[at[i]] += grads[i] * derivative[i];
    }
    if (same) tensor.gradient[at[0]] += static_cast<float>(sum);
  }

  static u32 as_word(u32 x) { return x; }
  static u32 as_word(float x) { return bits_as<u32>(x); }

  template <class Function>
  void each(u32* to, Function function) {
    for (i64 i = 0; i < keys; ++i) to[i] = as_word(function(i));
  }

  void operation(const FunctionStep& step, u32* to) {
    const u32* const x = row(step.operands[0]);
    const u32* const y = step.count > 1 ? row(step.operands[1]) : x;
    const auto operation = static_cast<function::Operation>(step.which);
    if (operation == function::Operation::where) {
      const u32* const z = row(step.operands[2]);
      return each(to, [=](i64 i) { return x[i] != 0 ? y[i] : z[i]; });
    }
    switch (step.operand) {
      case function::Type::boolean:
        return of_conditions(operation, to, x, y);
      case function::Type::integer:
        return of_integers(operation, to, x, y);
      case function::Type::real:
        return of_reals(operation, to, x, y);
    }
  }

#define REGARD_EACH(name, ...)    \
  case function::Operation::name: \
    return each(to, [=](i64 i) { return REGARD_OF<function::Operation::name>(x[i], y[i]); });
#define REGARD_OF function::of_conditions
  void of_conditions(function::Operation operation, u32* to, const u32* x, const u32* y) {
    switch (operation) { REGARD_FUNCTION_OPERATIONS(REGARD_EACH) }
  }
#undef REGARD_OF
#define REGARD_OF function::of_integers
  void of_integers(function::Operation operation, u32* to, const u32* x, const u32* y) {
    switch (operation) { REGARD_FUNCTION_OPERATIONS(REGARD_EACH) }
  }
#undef REGARD_OF
#undef REGARD_EACH
#define REGARD_EACH(name, ...)                                                                          \
  case function::Operation::name:                                                                       \
    return each(to, [=](i64 i) {                                                                        \
      return function::of_reals<function::Operation::name>(bits_as<float>(x[i]), bits_as<float>(y[i])); \
    });
  void of_reals(function::Operation operation, u32* to, const u32* x, const u32* y) {
    switch (operation) { REGARD_FUNCTION_OPERATIONS(REGARD_EACH) }
  }
#undef REGARD_EACH

  const FunctionCall* call_;
  u32* values_;
};

}  // namespace regard::generic
