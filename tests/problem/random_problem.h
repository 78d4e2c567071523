// Random problems over every field of the list, so that a new field is covered without a change here.
#pragma once

#include <random>

#include "problem/fields.h"
#include "problem/words.h"

namespace regard {

inline void randomize(std::mt19937_64& random, bool& value) {
  value = random() % 2 != 0;
}
inline void randomize(std::mt19937_64& random, std::int64_t& value) {
  value =
      static_cast<std::int64_t>(random() >> (1 + random() % 63)) - static_cast<std::int64_t>(random() % 3);
}
inline void randomize(std::mt19937_64& random, double& value) {
  value = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 128) - 96);
}
inline void randomize(std::mt19937_64& random, OptionalScale& value) {
  randomize(random, value.emplace());
}
/// A text that could be any field's: equal texts of several fields are no problem, as nothing parses them.
inline void randomize(std::mt19937_64& random, InternedText& value) {
  value = InternedText("s*" + std::to_string(1 + random() % 100) + ".5");
}
inline void randomize(std::mt19937_64& random, FunctionNumbers& value) {
  value.count = 1 + random() % 3;
  for (int i = 0; i < value.count; ++i)
    value.of[static_cast<std::size_t>(i)] = {function::Type::integer, static_cast<std::uint32_t>(random())};
}
template <class Enum>
  requires std::is_enum_v<Enum>
void randomize(std::mt19937_64& random, Enum& value) {
  value = static_cast<Enum>(random() % words_of<Enum>().size());
}

/// The fields of a function go together.
constexpr bool is_of_function(Field field) {
  return field == Field::score || field == Field::keep || field == Field::tensors || field == Field::grads ||
         field == Field::numbers;
}

template <class Record>
void randomize_function(std::mt19937_64& random, Record& record) {
  static constexpr const char* functions[] = {
      "score=s-slope[h]*abs(kv-p) tensors=slope:fp32[1] grads=slope",
      "keep=kv<=q&&q-kv<64",
      "score=where(kv<3,s*0.5,2.0-s) keep=doc[b,q]==doc[b,kv]&&kv<7 tensors=doc:int32[2]",
      "tensors=t:bool[0],u:fp32[4]",
  };
  const Problem function = *parse(functions[random() % std::size(functions)]);
  record.score = function.score;
  record.keep = function.keep;
  record.tensors = function.tensors;
  record.grads = function.grads;
  if constexpr (std::is_same_v<Record, Problem>) record.numbers = function.numbers;
}

/// Sets about half of the fields to random values, valid or not; the rest keep their defaults.
template <class Record>
Record random_record(std::mt19937_64& random) {
  Record record;
  for_each_field(record, [&](Field field, auto& value) {
    if (random() % 2 != 0 && !is_of_function(field)) randomize(random, value);
  });
  if (random() % 2 != 0) randomize_function(random, record);
  return record;
}

}  // namespace regard
