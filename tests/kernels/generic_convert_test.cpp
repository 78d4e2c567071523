// The 8-bit conversions of the generic kernels against the oracle's: every code, and floats of every
// exponent.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "oracle/number.h"
#include "problem/problem.h"

// Provides the constants that a rendered kernel gets, with the kernels' headers in a separate namespace.
#define regard regard_kernel_headers
namespace regard {
#define REGARD_ENUMERATOR(name, word, doc) name,
enum class DType { REGARD_DTYPE(REGARD_ENUMERATOR) };
#undef REGARD_ENUMERATOR
namespace target {
constexpr int vector_bytes = 16;
[[maybe_unused]] constexpr bool fma = false, f16c = false, avx2 = false, avx512 = false, bf16_convert = false,
                                neon = false;
}  // namespace target
}  // namespace regard
#include "kernels/cpu/generic_convert.h"
#undef regard

namespace {

namespace kernel = regard_kernel_headers;

template <kernel::DType type>
void expect_like_oracle() {
  const auto format = regard::oracle::format(static_cast<regard_dtype>(type));
  const auto encode = kernel::generic::eight_bits_of_float<type>;
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const double decoded = kernel::float_of_eight_bits<type>(bits),
                 exact = regard::oracle::decode_bits(format, bits);
    EXPECT_TRUE(decoded == exact || (std::isnan(decoded) && std::isnan(exact))) << bits;
  }
  std::int64_t different = 0;
  for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += 1021) {
    // The low bits are cleared occasionally, so that exact midpoints come up.
    const auto bits = static_cast<std::uint32_t>(pattern % 3 == 0 ? pattern & 0xfff80000u : pattern);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(regard::oracle::decode_bits(format, encode(value))));
    } else if (encode(value) != regard::oracle::encode_bits(format, value) && different++ == 0) {
      ADD_FAILURE() << value << " became " << int{encode(value)} << ", not "
                    << regard::oracle::encode_bits(format, value);
    }
  }
  EXPECT_EQ(different, 0);
}

TEST(GenericConvert, E4m3IsLikeTheOracles) {
  expect_like_oracle<kernel::DType::fp8>();
}

TEST(GenericConvert, E5m2IsLikeTheOracles) {
  expect_like_oracle<kernel::DType::fp8_e5m2>();
}

TEST(GenericConvert, E4m3FnuzIsLikeTheOracles) {
  expect_like_oracle<kernel::DType::fp8_fnuz>();
}

TEST(GenericConvert, E5m2FnuzIsLikeTheOracles) {
  expect_like_oracle<kernel::DType::fp8_e5m2_fnuz>();
}

}  // namespace
