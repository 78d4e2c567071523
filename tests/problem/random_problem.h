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
template <class Enum>
  requires std::is_enum_v<Enum>
void randomize(std::mt19937_64& random, Enum& value) {
  value = static_cast<Enum>(random() % words_of<Enum>().size());
}

/// Sets about half of the fields to random values, valid or not; the rest keep their defaults.
template <class Record>
Record random_record(std::mt19937_64& random) {
  Record record;
  for_each_field(record, [&](Field, auto& value) {
    if (random() % 2 != 0) randomize(random, value);
  });
  return record;
}

}  // namespace regard
