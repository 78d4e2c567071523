#include "packed.h"

#include <numeric>

#include "refusal.h"

namespace ck_fused_attn {

std::vector<std::int32_t> host_copy(const void* sums, std::uint64_t b, hipStream_t stream) {
  if (sums == nullptr)
    refuse(TE_REGARD_INVALID, "the cumulative lengths are missing; packed sequences need both");
  std::vector<std::int32_t> values(b + 1);
  require(te_regard_memory_wait(sums, stream));
  require(te_regard_memory_copy(values.data(), sums,
                                static_cast<std::int64_t>(values.size() * sizeof values[0])));
  return values;
}

std::vector<std::int32_t> lengths_of(const Packed& packed, std::uint64_t b, hipStream_t stream) {
  std::vector<std::int32_t> lengths = host_copy(packed.sums, b, stream);
  std::adjacent_difference(lengths.begin(), lengths.end(), lengths.begin());
  lengths.erase(lengths.begin());
  return lengths;
}

}  // namespace ck_fused_attn
