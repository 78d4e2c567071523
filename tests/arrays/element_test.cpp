#include "arrays/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace regard {
namespace {

constexpr Element narrow_types[] = {Element::bf16,    Element::f16,         Element::f8_e4m3,
                                    Element::f8_e5m2, Element::f8_e4m3fnuz, Element::f8_e5m2fnuz};

std::uint32_t codes(Element element) {
  return 1u << (8 * info(element).bytes);
}

TEST(Narrow, EveryCodeWidensAndComesBack) {
  for (const Element element : narrow_types) {
    for (std::uint32_t code = 0; code < codes(element); ++code) {
      const float value = widen(element, code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(widen(element, narrow(element, value))));
      } else {
        ASSERT_EQ(narrow(element, value), code) << info(element).name << " " << value;
      }
    }
  }
}

TEST(Narrow, HalfwayGoesToTheEvenCodeAndValuesNextToItToTheNearer) {
  for (const Element element : narrow_types) {
    for (std::uint32_t code = 0; code + 1 < codes(element) / 2; ++code) {
      const float low = widen(element, code), high = widen(element, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
      if (static_cast<double>(middle) * 2 != static_cast<double>(low) + high) continue;  // not a float
      ASSERT_EQ(narrow(element, middle), code + code % 2) << info(element).name << " " << middle;
      ASSERT_EQ(narrow(element, std::nextafter(middle, 0.0f)), code) << info(element).name;
      ASSERT_EQ(narrow(element, std::nextafter(middle, INFINITY)), code + 1) << info(element).name;
    }
  }
}

TEST(Narrow, OverflowIsInfinityWhereThereIsOneAndNanInE4m3) {
  EXPECT_EQ(narrow(Element::f16, 65520.0f), 0x7c00u);
  EXPECT_EQ(narrow(Element::f16, 65519.0f), 0x7bffu);
  EXPECT_EQ(narrow(Element::f8_e4m3, 448.0f), 0x7eu);
  EXPECT_EQ(narrow(Element::f8_e4m3, 480.0f), 0x7fu);
  EXPECT_EQ(narrow(Element::f8_e5m2, -INFINITY), 0xfcu);
}

TEST(Narrow, FnuzTypesHaveNanInThePlaceOfMinusZero) {
  for (const Element element : {Element::f8_e4m3fnuz, Element::f8_e5m2fnuz}) {
    EXPECT_EQ(narrow(element, -0.0f), 0u);
    EXPECT_EQ(narrow(element, -1e-9f), 0u);
    for (const float value : {NAN, -NAN, INFINITY, -INFINITY, 1e9f, -1e9f})
      EXPECT_EQ(narrow(element, value), 0x80u) << value;
    EXPECT_TRUE(std::isnan(widen(element, 0x80)));
  }
  EXPECT_EQ(widen(Element::f8_e4m3fnuz, 0x7f), 240.0f);
  EXPECT_EQ(widen(Element::f8_e4m3fnuz, 0x81), -0x1p-10f);
  EXPECT_EQ(widen(Element::f8_e5m2fnuz, 0x7f), 57344.0f);
  EXPECT_EQ(widen(Element::f8_e5m2fnuz, 0x01), 0x1p-17f);
}

TEST(Convert, RoundsDoublesOnce) {
  // Just above the middle of two bf16 values; rounding to fp32 first would make it the exact middle.
  const double value = 1.0 + 0x1p-8 + 0x1p-40;
  std::uint16_t bits = 0;
  ASSERT_TRUE(convert(Element::f64, std::as_bytes(std::span(&value, 1)), Element::bf16,
                      std::as_writable_bytes(std::span(&bits, 1))));
  EXPECT_EQ(widen(Element::bf16, bits), 1.0f + 0x1p-7f);
}

TEST(Convert, RefusesAnIntegerThatDoesNotFit) {
  const std::int64_t value = std::int64_t{1} << 31;
  std::int32_t narrowed = 0;
  const Status status = convert(Element::i64, std::as_bytes(std::span(&value, 1)), Element::i32,
                                std::as_writable_bytes(std::span(&narrowed, 1)));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "a value does not fit when converting int64 to int32");
}

TEST(Bytes, OverflowIsNothing) {
  const std::int64_t large[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_EQ(bytes_of(Element::f32, large), std::nullopt);
  const std::int64_t negative[] = {-1};
  EXPECT_EQ(bytes_of(Element::f32, negative), std::nullopt);
}

}  // namespace
}  // namespace regard
