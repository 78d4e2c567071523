#include "lengths.h"

#include <numeric>

#include "refusal.h"

namespace calls {

std::vector<std::int32_t> host_copy(const void* numbers, std::uint64_t count, void* stream) {
  if (numbers == nullptr)
    refuse(TE_REGARD_INVALID, "the cumulative lengths are missing; packed sequences need both");
  std::vector<std::int32_t> values(count);
  require(te_regard_memory_wait(numbers, stream));
  require(te_regard_memory_copy(values.data(), numbers,
                                static_cast<std::int64_t>(values.size() * sizeof values[0])));
  return values;
}

std::vector<std::int32_t> lengths_of(const void* sums, std::uint64_t b, void* stream) {
  std::vector<std::int32_t> lengths = host_copy(sums, b + 1, stream);
  std::adjacent_difference(lengths.begin(), lengths.end(), lengths.begin());
  lengths.erase(lengths.begin());
  return lengths;
}

}  // namespace calls
