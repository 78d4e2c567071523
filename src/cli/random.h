// Random inputs that are the same on every machine: a hash of (seed, stream, index), so that any element can
// be computed on its own.
#pragma once

#include <cstdint>

namespace regard::cli {

class Random {
 public:
  /// `stream` separates what is drawn with one seed, e.g. the roles of tensors.
  Random(std::uint64_t seed, std::uint64_t stream) : key_(mix(mix(seed) + stream)) {}

  std::uint64_t bits(std::uint64_t index) const { return mix(key_ + index * 0x9e3779b97f4a7c15); }

  /// Whole number in [0, most].
  std::int64_t whole(std::uint64_t index, std::int64_t most) const {
    return static_cast<std::int64_t>(bits(index) % (static_cast<std::uint64_t>(most) + 1));
  }

  /// Mean 0, variance 1, close to normal: the sum of four 16-bit uniforms, only a few instructions.
  float normal(std::uint64_t index) const {
    const std::uint64_t b = bits(index);
    const auto sum = static_cast<float>((b & 0xffff) + (b >> 16 & 0xffff) + (b >> 32 & 0xffff) + (b >> 48));
    constexpr float mean = 2 * 65535.0f, deviation = 65536.0f / 1.7320508f;
    return (sum - mean) / deviation;
  }

 private:
  /// The finalizer of SplitMix64.
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  std::uint64_t key_;
};

}  // namespace regard::cli
