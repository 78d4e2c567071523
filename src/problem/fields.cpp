#include "problem/fields.h"

#include <bit>
#include <functional>

namespace regard {

std::span<const FieldInfo> field_table() {
  static constexpr FieldInfo table[] = {
#define REGARD_ROW(category, type, name, default_value, doc) {#name, Category::category, doc},
      REGARD_PROBLEM_FIELDS(REGARD_ROW)
#undef REGARD_ROW
  };
  return table;
}

std::span<const Composite> composite_table() {
  static constexpr Composite table[] = {
      {"h", "h=N", "sets hq and hk", Field::hq, Field::hk},
      {"s", "s=N", "sets sq and sk", Field::sq, Field::sk},
      {"mask", "mask=window:L,R[,top_left][,sink=N]", "sets mask, window_left, window_right and sink_tokens",
       Field::window_left, Field::window_right},
  };
  return table;
}

DType default_type(Field field, DType of_q) {
  switch (field) {
    case Field::out:
      return default_out(of_q);
    case Field::bias_type:
    case Field::rope_type:
      return default_bias_type(of_q);
    default:
      return of_q;
  }
}

Signature signature(const Problem& problem) {
  Signature result;
#define REGARD_COPY_SIGNATURE(name, default_value) result.name = problem.name;
#define REGARD_COPY_PRESENCE(name, default_value) result.name = problem.name != default_value;
#define REGARD_COPY_SHAPE(name, default_value)
#define REGARD_COPY(category, type, name, default_value, doc) REGARD_COPY_##category(name, (default_value))
  REGARD_PROBLEM_FIELDS(REGARD_COPY)
#undef REGARD_COPY
#undef REGARD_COPY_SIGNATURE
#undef REGARD_COPY_PRESENCE
#undef REGARD_COPY_SHAPE
  return result;
}

namespace {

void mix(std::size_t& seed, std::uint64_t value) {
  // splitmix64's finaliser: every input bit reaches every output bit.
  value += seed + 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  seed = value ^ (value >> 31);
}

template <class Value>
void mix_value(std::size_t& seed, const Value& value) {
  if constexpr (std::is_same_v<Value, double>) {
    mix(seed, std::bit_cast<std::uint64_t>(value + 0.0));  // -0.0 equals 0.0, so both must have the same hash
  } else if constexpr (std::is_same_v<Value, OptionalScale>) {
    mix(seed, value.has_value());
    if (value) mix_value(seed, *value);
  } else if constexpr (std::is_same_v<Value, InternedText>) {
    mix(seed, std::hash<std::string_view>()(value.view()));
  } else if constexpr (std::is_same_v<Value, FunctionNumbers>) {
    for (int i = 0; i < value.count; ++i) {
      const function::Number& number = value.of[static_cast<std::size_t>(i)];
      mix(seed, static_cast<std::uint64_t>(number.type) << 32 | number.bits);
    }
  } else {
    mix(seed, static_cast<std::uint64_t>(value));
  }
}

template <class Record>
std::size_t hash_fields(const Record& record) {
  std::size_t seed = 0;
  for_each_field(record, [&](Field, const auto& value) { mix_value(seed, value); });
  return seed;
}

}  // namespace

std::size_t hash(const Problem& problem) {
  return hash_fields(problem);
}
std::size_t hash(const Signature& signature) {
  return hash_fields(signature);
}

}  // namespace regard
