// What of a function is part of a kernel's text, and what is given at run time.
#include "function/canonical.h"

#include <gmock/gmock.h>

#include <bit>

#include "function/parse.h"
#include "function/print.h"
#include "function/recounted.h"

namespace regard::function {
namespace {

Canonical canonical_of(Purpose purpose, std::string_view text, std::string_view declared) {
  std::vector<Captured> tensors;
  if (!declared.empty()) tensors = *parse_tensors(declared);
  const Result<Canonical> result =
      parse(purpose, text, std::move(tensors)).and_then([](const Function& f) { return canonical(f); });
  if (!result) throw std::runtime_error(result.error().message);
  return *result;
}
std::string text_of(Purpose purpose, std::string_view text, std::string_view declared = "") {
  return print(canonical_of(purpose, text, declared).function);
}

TEST(FunctionNumbers, WindowsOfAllWidthsHaveOneText) {
  for (const char* text : {"kv<=q&&q-kv<64", "kv<=q&&q-kv<1", "q-kv<100000&&q>=kv"})
    EXPECT_EQ(text_of(Purpose::keep, text), "q-kv<n0&&kv<=q") << text;
  EXPECT_EQ(canonical_of(Purpose::keep, "kv<=q&&q-kv<64", "").numbers,
            (std::vector<Number>{{Type::integer, 64}}));
}

TEST(FunctionNumbers, EqualLiteralsAreDifferentNumbers) {
  EXPECT_EQ(text_of(Purpose::keep, "q-kv<8&&kv-q<8"), text_of(Purpose::keep, "q-kv<8&&kv-q<9"));
}

TEST(FunctionNumbers, WhatMakesCodeFastStaysInTheText) {
  EXPECT_EQ(text_of(Purpose::keep, "kv//64==q//64"), "q//64==kv//64");
  EXPECT_EQ(text_of(Purpose::keep, "m[b,3,q//64,kv%32]&&kv>>2<=q+5", "m:bool[4]"),
            "t0[b,3,q//64,kv%32]&&kv>>2<=q+n0");
  EXPECT_EQ(text_of(Purpose::score, "where(kv<4,s*0.5,-inf)"), "where(kv<n0,s*f1,-inf)");
}

TEST(FunctionNumbers, ManyEqualOnesAreShared) {
  std::string text = "s";
  for (int i = 0; i < 20; ++i) text = "max(" + text + ",s*0.5" + (i % 2 == 0 ? "+h" : "-b") + ")";
  const Canonical shared = canonical_of(Purpose::score, text, "");
  EXPECT_LE(shared.numbers.size(), most_numbers);

  std::string different = "s";
  for (int i = 0; i < 20; ++i) different = "max(" + different + ",s*" + std::to_string(i) + ".5)";
  const Result<Function> parsed = parse(Purpose::score, different, {});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(canonical(*parsed).error().message,
            "a function has at most 16 different numbers, and this one has 20");
}

TEST(FunctionNumbers, AreCountedInTheOrderInWhichTheyAreRead) {
  const Result<Function> given =
      parse(Purpose::keep, "q-kv<n5&&doc[q]==doc[kv]&&kv<n2", *parse_tensors("a:int32[1],doc:int32[1]"));
  ASSERT_TRUE(given) << given.error().message;
  const Recounted result = recounted(*given);
  EXPECT_EQ(print(result.function.tensors), "t0:int32[1]");
  EXPECT_EQ(result.tensors, std::vector<int>{1});
  ASSERT_EQ(result.numbers.size(), 2u);
  EXPECT_EQ(result.numbers[0] + result.numbers[1], 7);
  EXPECT_THAT(print(result.function), testing::AllOf(testing::HasSubstr("n0"), testing::HasSubstr("n1"),
                                                     testing::HasSubstr("t0[q]==t0[kv]")));
}

/// What a front or a record passes on is the same function again.
TEST(FunctionNumbers, TheTextIsItsOwn) {
  for (const char* text : {"kv<=q&&q-kv<64", "(kv<4||q-kv<64)&&kv<=q", "kv*40503%7<3"}) {
    const std::string once = text_of(Purpose::keep, text);
    EXPECT_EQ(text_of(Purpose::keep, once), once);
  }
}

}  // namespace
}  // namespace regard::function
