// Copies lengths of sequences from where the plan runs to the host.
#pragma once

#include <cstdint>
#include <vector>

namespace calls {

/// The `count` numbers at `numbers`, once the work in the stream that may write them is done.
std::vector<std::int32_t> host_copy(const void* numbers, std::uint64_t count, void* stream);

/// The length of each sequence, from the b + 1 cumulative sums in `sums`.
std::vector<std::int32_t> lengths_of(const void* sums, std::uint64_t b, void* stream);

}  // namespace calls
