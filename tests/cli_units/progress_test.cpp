#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace regard::cli;
using namespace std::chrono_literals;

TEST(Waiting, AStepThatTakesLongIsReported) {
  testing::internal::CaptureStderr();
  {
    const Waiting waiting("checking", 1ms);
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "regard: checking, 0 s\n");
}

TEST(Waiting, AShortOneIsNot) {
  testing::internal::CaptureStderr();
  {
    const Waiting waiting("checking");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}
