// A failed call frees all memory that it allocated.
#include <gtest/gtest.h>

#include "device/cuda/driver.h"
#include "gpu/call.h"

namespace regard::test {
namespace {

TEST_F(Gpu, AFailedCallGivesItsMemoryBack) {
  const Call call(plain);
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = "cuda";
  const auto attention = [&] { return regard_attention(call.problem, &options, &call.arguments); };
  ASSERT_EQ(attention(), REGARD_OK) << message();  // now all persistent memory is allocated
  const int held = driver.held;
  driver.launch_code = cuda::out_of_memory;
  EXPECT_EQ(attention(), REGARD_NO_MEMORY);
  EXPECT_EQ(driver.held, held);
  driver.launch_code = cuda::success;
  driver.fill_code = cuda::out_of_memory;
  attention();
  EXPECT_EQ(driver.held, held);
}

}  // namespace
}  // namespace regard::test
