// Whether two tensors have a byte in common: exactly, as outputs can well be interleaved, each between the
// other's rows.
#include <algorithm>
#include <array>

#include "problem/tensors.h"

namespace regard {
namespace {

/// A distance in bytes that is taken 0 to `times` times.
struct Step {
  std::uint64_t bytes = 0, times = 0;
};

/// Steps of different lengths, the shortest first.
struct Steps {
  std::array<Step, 10> of{};
  std::size_t count = 0;

  void add(std::uint64_t bytes, std::uint64_t times) {
    if (bytes == 0 || times == 0) return;
    std::size_t index = count;
    while (index > 0 && of[index - 1].bytes > bytes) --index;
    if (index > 0 && of[index - 1].bytes == bytes) {
      of[index - 1].times += times;
      return;
    }
    std::copy_backward(of.begin() + index, of.begin() + count, of.begin() + count + 1);
    of[index] = {bytes, times};
    ++count;
  }
  void add(const regard_tensor& tensor) {
    const std::uint64_t bytes = bytes_of(tensor.dtype);
    add(1, bytes - 1);
    for (std::int32_t i = 0; i < tensor.rank; ++i)
      add(static_cast<std::uint64_t>(tensor.strides[i]) * bytes,
          static_cast<std::uint64_t>(tensor.shape[i]) - 1);
  }
};

/// Whether the steps below `top` can add up to a distance. Nested strides leave two or three possibilities to
/// check in each; after `looks` checks, which other strides could need, the answer is no.
bool can_go(const Steps& steps, std::size_t top, std::uint64_t distance, int& looks) {
  if (top == 0) return distance == 0;
  if (--looks < 0) return false;
  const Step& step = steps.of[top - 1];
  std::uint64_t below = 0;
  bool gapless = true;  // the shorter steps reach any distance up to `below`
  for (std::size_t i = 0; i + 1 < top; ++i) {
    gapless &= steps.of[i].bytes <= below + 1;
    below += steps.of[i].bytes * steps.of[i].times;
  }
  const std::uint64_t most = std::min(step.times, distance / step.bytes);
  if (distance - most * step.bytes > below) return false;
  if (gapless) return true;
  const std::uint64_t least = distance > below ? (distance - below + step.bytes - 1) / step.bytes : 0;
  for (std::uint64_t times = least; times <= most; ++times) {
    if (can_go(steps, top - 1, distance - times * step.bytes, looks)) return true;
  }
  return false;
}

}  // namespace

ByteRange range_of(const regard_tensor& tensor) {
  std::uint64_t elements = 1;  // from the first to the last
  std::int64_t smallest = 1;
  for (std::int32_t i = 0; i < tensor.rank; ++i) {
    smallest = std::min(smallest, tensor.shape[i]);
    elements +=
        static_cast<std::uint64_t>(tensor.shape[i] - 1) * static_cast<std::uint64_t>(tensor.strides[i]);
  }
  if (smallest == 0) return {};
  const auto first = reinterpret_cast<std::uint64_t>(tensor.data);
  return {first, first + elements * bytes_of(tensor.dtype)};
}

// A byte of `a` is its first one plus some steps, one of `b` its last one minus some: they meet where all
// steps together cover the distance between those two.
bool share_memory(const regard_tensor& a, const regard_tensor& b) {
  const ByteRange of_a = range_of(a), of_b = range_of(b);
  if (!of_a.meets(of_b)) return false;
  Steps steps;
  steps.add(a);
  steps.add(b);
  int looks = 1000;
  return can_go(steps, steps.count, of_b.end - 1 - of_a.first, looks);
}

}  // namespace regard
