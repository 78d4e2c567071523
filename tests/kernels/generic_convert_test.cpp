// The 8-bit encoders of the generic kernels against the oracle's, over floats of every exponent.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "oracle/number.h"

// Provides the constants that a rendered kernel gets, with the kernels' headers in a separate namespace.
#define regard regard_kernel_headers
namespace regard {
enum class DType { fp32, bf16, fp16, fp8, fp8_e5m2 };
namespace target {
constexpr int vector_bytes = 16;
[[maybe_unused]] constexpr bool fma = false, f16c = false, avx2 = false, avx512 = false, bf16_convert = false;
}  // namespace target
}  // namespace regard
#include "kernels/cpu/generic_convert.h"
#undef regard

namespace {

namespace kernel = regard_kernel_headers;

template <class Encode>
void expect_like_oracle(regard_dtype dtype, Encode encode) {
  const auto format = regard::oracle::format(dtype);
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

TEST(GenericConvert, E4m3IsRoundedLikeTheOracle) {
  expect_like_oracle(REGARD_FP8, kernel::generic::eight_bits_of_float<3, 7, 0x7e, 0x7e, 0x7f>);
}

TEST(GenericConvert, E5m2IsRoundedLikeTheOracle) {
  expect_like_oracle(REGARD_FP8_E5M2, kernel::generic::eight_bits_of_float<2, 15, 0x7b, 0x7c, 0x7f>);
}

}  // namespace
