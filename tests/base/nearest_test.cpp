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

TEST(Suggestion, NamesTheNearestOrAllWords) {
  EXPECT_EQ(suggestion("causl", words), "; did you mean 'causal'?");
  EXPECT_EQ(suggestion("zzzzzzz", words), "; one of: causal, window, none");
}

}  // namespace
}  // namespace regard
