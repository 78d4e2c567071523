// A call on the fake driver's GPUs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "compile/test_nvrtc.h"
#include "device/cuda/driver.h"
#include "gpu/fake_driver/fake_driver.h"
#include "regard/regard.h"

namespace regard::test {

// An installed package finds NVRTC next to itself; a test program cannot.
[[maybe_unused]] inline const int found = setenv("REGARD_NVRTC", test_nvrtc().path.c_str(), 0);

inline std::string message() {
  return regard_status_message();
}

/// A problem with its tensors and workspace in one device's memory.
class Call {
 public:
  explicit Call(const char* text, int device = 0, const char* target = "cuda", const char* family = nullptr) {
    fake_use(device);
    gpu_ = std::string(target).starts_with("gfx") || std::string(target) == "hip" ? "hip" : "cuda";
    EXPECT_EQ(regard_problem_parse(text, &problem), REGARD_OK) << message();
    regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
    options.target = target;
    options.family = family;
    EXPECT_EQ(regard_plan_create(problem, &options, &plan), REGARD_OK) << message();
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      regard_use use = REGARD_UNUSED;
      regard_tensor& tensor = arguments.tensor[i];
      EXPECT_EQ(regard_problem_tensor(problem, static_cast<regard_role>(i), &use, &tensor), REGARD_OK);
      const bool lengths = i == REGARD_LENGTHS_K && use != REGARD_UNUSED;
      if (lengths || (use != REGARD_UNUSED && use != REGARD_OPTIONAL_INPUT))
        tensor.data = allocate(bytes_for(tensor));
    }
    workspace = allocate(std::max<std::int64_t>(regard_plan_workspace_bytes(plan), 1));
  }
  ~Call() {
    for (void* one : memory) EXPECT_EQ(regard_memory_free(one), REGARD_OK) << message();
    regard_plan_destroy(plan);
    regard_problem_destroy(problem);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  regard_status run(void* stream = nullptr) const {
    return regard_plan_run(plan, &arguments, workspace, regard_plan_workspace_bytes(plan), stream);
  }

  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  void* workspace = nullptr;

 private:
  /// Enough bytes for any element type and some strides.
  static std::int64_t bytes_for(const regard_tensor& tensor) {
    std::int64_t bytes = 8;
    for (int axis = 0; axis < tensor.rank; ++axis) bytes *= std::max<std::int64_t>(tensor.shape[axis], 1);
    return bytes + (1 << 20);
  }
  void* allocate(std::int64_t bytes) {
    void* one = nullptr;
    EXPECT_EQ(regard_memory_allocate(gpu_, bytes, &one), REGARD_OK) << message();
    memory.push_back(one);
    return one;
  }
  const char* gpu_;  ///< whose memory holds the tensors
  std::vector<void*> memory;
};

/// A problem whose kernel takes work from a counter.
constexpr const char* plain = "fwd bf16 lse b=8 hq=8 hk=2 sq=300 sk=500 d=64 mask=causal";

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    driver.capturing = driver.launch_code = driver.fill_code = driver.number_code = 0;
    driver.most_bytes = 1ll << 40;
    driver.on_launch = nullptr;
  }
  FakeDriver& driver = *fake_driver();
};

}  // namespace regard::test
