#include "oracle/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace regard::oracle {
namespace {

class EveryPattern : public testing::TestWithParam<regard_dtype> {};

TEST_P(EveryPattern, SurvivesDecodeAndEncode) {
  const Format f = format(GetParam());
  const std::uint32_t patterns = 1u << (1 + f.exponent_bits + f.mantissa_bits);
  for (std::uint32_t bits = 0; bits < patterns; ++bits) {
    const double value = decode_bits(f, bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(decode_bits(f, encode_bits(f, value))));
    } else {
      EXPECT_EQ(encode_bits(f, value), bits) << value;
    }
  }
}

TEST_P(EveryPattern, MidpointsRoundToEven) {
  const Format f = format(GetParam());
  const std::uint32_t finite = encode_bits(f, f.largest());
  for (std::uint32_t bits = 0; bits < finite; ++bits) {
    const double low = decode_bits(f, bits), high = decode_bits(f, bits + 1), middle = (low + high) / 2;
    EXPECT_EQ(encode_bits(f, middle), bits % 2 == 0 ? bits : bits + 1) << middle;
    EXPECT_EQ(encode_bits(f, std::nextafter(middle, 0)), bits);
    EXPECT_EQ(encode_bits(f, std::nextafter(middle, 1e300)), bits + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryPattern,
                         testing::Values(REGARD_BF16, REGARD_FP16, REGARD_FP8, REGARD_FP8_E5M2,
                                         REGARD_FP8_FNUZ, REGARD_FP8_E5M2_FNUZ));

TEST(Number, KnownValues) {
  EXPECT_EQ(decode_bits(format(REGARD_BF16), 0x3f80), 1.0);
  EXPECT_EQ(decode_bits(format(REGARD_BF16), 0xc2f7), -123.5);
  EXPECT_EQ(decode_bits(format(REGARD_FP16), 0x7bff), 65504.0);
  EXPECT_EQ(decode_bits(format(REGARD_FP16), 0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(decode_bits(format(REGARD_FP8), 0x7e), 448.0);
  EXPECT_EQ(decode_bits(format(REGARD_FP8), 0x01), std::ldexp(1.0, -9));
  EXPECT_TRUE(std::isnan(decode_bits(format(REGARD_FP8), 0xff)));
  EXPECT_EQ(decode_bits(format(REGARD_FP8_E5M2), 0x7b), 57344.0);
  EXPECT_EQ(decode_bits(format(REGARD_FP8_E5M2), 0xfc), -infinity);
}

TEST(Number, FnuzTypesHaveHalfTheNumbersOfOcpsTypesAndOthersInPlaceOfInfinity) {
  const auto expect_half = [](regard_dtype fnuz, regard_dtype ocp) {
    for (std::uint32_t bits = 0; bits < 256; ++bits) {
      const double number = decode_bits(format(fnuz), bits), of_ocp = decode_bits(format(ocp), bits);
      EXPECT_EQ(std::isnan(number), bits == 0x80);
      if (bits != 0x80 && std::isfinite(of_ocp)) {
        EXPECT_EQ(number, of_ocp / 2) << bits;
      }
    }
  };
  expect_half(REGARD_FP8_FNUZ, REGARD_FP8);
  expect_half(REGARD_FP8_E5M2_FNUZ, REGARD_FP8_E5M2);
  EXPECT_EQ(decode_bits(format(REGARD_FP8_FNUZ), 0x01), 0x1p-10);
  EXPECT_EQ(decode_bits(format(REGARD_FP8_FNUZ), 0x7f), 240.0);
  EXPECT_EQ(decode_bits(format(REGARD_FP8_FNUZ), 0xff), -240.0);
  EXPECT_EQ(decode_bits(format(REGARD_FP8_E5M2_FNUZ), 0x01), 0x1p-17);
  const double largest[] = {32768, 40960, 49152, 57344};
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(decode_bits(format(REGARD_FP8_E5M2_FNUZ), 0x7c + i), largest[i]);
}

TEST(Number, FnuzTypesSaturateAndHaveNoMinusZero) {
  EXPECT_EQ(encode_bits(format(REGARD_FP8_FNUZ), 1000), 0x7fu);
  EXPECT_EQ(encode_bits(format(REGARD_FP8_FNUZ), -infinity), 0xffu);
  EXPECT_EQ(encode_bits(format(REGARD_FP8_E5M2_FNUZ), 1e9), 0x7fu);
  for (const regard_dtype dtype : {REGARD_FP8_FNUZ, REGARD_FP8_E5M2_FNUZ}) {
    EXPECT_EQ(encode_bits(format(dtype), -0.0), 0u);
    EXPECT_EQ(encode_bits(format(dtype), -1e-9), 0u);
    EXPECT_EQ(encode_bits(format(dtype), nan), 0x80u);
    EXPECT_EQ(encode_bits(format(dtype), -nan), 0x80u);
  }
}

TEST(Number, OverflowIsInfinityExceptInE4m3) {
  EXPECT_EQ(encode_bits(format(REGARD_FP16), 65520), 0x7c00u);
  EXPECT_EQ(encode_bits(format(REGARD_FP16), 65519), 0x7bffu);
  EXPECT_EQ(encode_bits(format(REGARD_BF16), -1e39), 0xff80u);
  EXPECT_EQ(encode_bits(format(REGARD_FP8_E5M2), infinity), 0x7cu);
  EXPECT_EQ(encode_bits(format(REGARD_FP8), 1000), 0x7eu);
  EXPECT_EQ(encode_bits(format(REGARD_FP8), -infinity), 0xfeu);
}

TEST(Number, MemoryKeepsIntegersAndFloatsExactly) {
  std::int32_t integer = 0;
  encode(REGARD_INT32, &integer, 0, -7);
  EXPECT_EQ(decode(REGARD_INT32, &integer, 0), -7);
  std::uint32_t word = 0;
  encode(REGARD_UINT32, &word, 0, 0xfffffffe);
  EXPECT_EQ(word, 0xfffffffeu);
  float number = 0;
  encode(REGARD_FP32, &number, 0, 0.1);
  EXPECT_EQ(number, 0.1f);
}

TEST(Number, UnitsAreHalfALastPlace) {
  EXPECT_EQ(format(REGARD_BF16).unit(), std::ldexp(1.0, -8));
  EXPECT_EQ(format(REGARD_FP16).unit(), std::ldexp(1.0, -11));
  EXPECT_EQ(format(REGARD_FP32).unit(), std::ldexp(1.0, -24));
  EXPECT_EQ(format(REGARD_FP32).largest(), 3.4028234663852886e38);
}

}  // namespace
}  // namespace regard::oracle
