#include "base/nearest.h"

#include <gtest/gtest.h>

namespace regard {
namespace {

constexpr std::string_view words[] = {"causal", "window", "none"};

TEST(Nearest, FindsTheSmallestSlip) {
  EXPECT_EQ(nearest("causl", words), "causal");
  EXPECT_EQ(nearest("widnow", words), "window");
  EXPECT_EQ(nearest("", words), "none");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Nearest, ASwapIsOneSlip) {
  constexpr std::string_view pair[] = {"pass", "mask"};
  EXPECT_EQ(nearest("maks", pair), "mask");
}

TEST(Nearest, TiesGoToTheFirst) {
  constexpr std::string_view pair[] = {"ab", "ac"};
  EXPECT_EQ(nearest("ad", pair), "ab");
}

TEST(Nearest, CapitalsAreNoSlip) {
  EXPECT_EQ(nearest("WINDOW", words), "window");
  EXPECT_EQ(nearest("CAUSL", words), "causal");
}

TEST(NearestWithin, AsNearAsAsked) {
  EXPECT_EQ(nearest_within("causl", words, 4), "causal");
  EXPECT_EQ(nearest_within("cusl", words, 4), "");
  EXPECT_EQ(nearest_within("cusl", words, 3), "causal");
  EXPECT_EQ(nearest_within("causal", {}, 4), "");
}

TEST(Suggestion, NeverTheWordItself) {
  EXPECT_EQ(suggestion("causal", words), "");
  EXPECT_EQ(suggestion("", words), "; one of: causal, window, none");
}

TEST(Suggestion, NamesTheNearestOrAllWords) {
  EXPECT_EQ(suggestion("causl", words), "; did you mean 'causal'?");
  EXPECT_EQ(suggestion("zzzzzzz", words), "; one of: causal, window, none");
}

}  // namespace
}  // namespace regard
