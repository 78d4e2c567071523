// Saved calls on the fake driver's GPUs. Settings are read once, so the test is a process of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "gpu/call.h"
#include "kernels/arguments.h"

namespace regard::test {
namespace {

namespace fs = std::filesystem;

/// O and LSE of the problem, as a kernel would write them.
void write_results(const FakeLaunch&, void** parameters) {
  const auto& arguments = *static_cast<const Arguments*>(parameters[0]);
  std::memset(arguments.o.data, 0x3c, 2 * 33 * 4 * 64 * 2);
  std::memset(arguments.lse.data, 0x3d, 2 * 4 * 33 * 4);
}

void require(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "not so: %s %s\n", what, regard_status_message());
  std::_Exit(1);
}

nlohmann::json report_of(const fs::path& folder, const char* target = nullptr) {
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = target;
  char* text = nullptr;
  require(regard_rerun(folder.c_str(), &options, 0, &text) == REGARD_OK, "a rerun");
  nlohmann::json report = nlohmann::json::parse(text);
  regard_string_free(text);
  return report;
}

void save_and_rerun(const fs::path& folder) {
  setenv("REGARD_SAVE_CALLS", folder.c_str(), 1);
  FakeDriver& driver = *fake_driver();
  {
    const Call call("fwd bf16 b=2 hq=4 hk=2 sq=33 sk=65 d=64 lse", 0, "cuda", "portable_forward");
    require(regard_plan_prepare(call.plan) == REGARD_OK, "a prepared plan");
    driver.on_launch = write_results;
    static_cast<void>(fake_waits());
    driver.capturing = 1;
    const int before = driver.launches;
    require(call.run() == REGARD_OK && driver.launches > before, "a graph is captured as before");
    require(std::string(fake_waits()).empty() && !fs::exists(folder), "nothing of it is saved");
    driver.capturing = 0;
    int stream = 0;
    require(call.run(&stream) == REGARD_OK, "a call");
    require(!std::string(fake_waits()).empty(), "its stream is waited for");
  }
  const int held = driver.held;
  nlohmann::json report = report_of(folder / "call-0001");
  require(report.at("verdict") == "same_bits" && report.at("target") == "sm_90a", "the same bits on a GPU");
  require(!report.contains("bits_may_differ"), "they had to be");
  driver.on_launch = nullptr;
  report = report_of(folder / "call-0001");
  require(report.at("verdict") == "different", "a kernel that writes nothing differs");
  require(report.at("outputs").at("lse").at("not_written") == 2 * 4 * 33, "not a single element");
  require(driver.held == held, "all memory is given back");
  report = report_of(folder / "call-0001", "cpu-generic");
  require(report.at("verdict") == "different" && report.at("bits_may_differ") == "another target",
          "on a CPU");
  std::_Exit(0);
}

TEST_F(Gpu, ACallIsSavedOutsideOfGraphsAndRunAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path folder = fs::path(testing::TempDir()) / "regard_saved_calls";
  fs::remove_all(folder);
  EXPECT_EXIT(save_and_rerun(folder), testing::ExitedWithCode(0),
              "its stream is capturing a graph[^\n]*\n[^\n]*saved a call \\(every\\)");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace regard::test
