// Kernels compiled ahead of time into objects: a file that cannot be written is an error, not half a file.
#include "aot/built_in_kernels.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

#include "support/temporary_folder.h"

namespace regard::aot {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// An order whose compiler produces nothing.
Order order_in(const std::string& folder) {
  return {.kernels = {"cpu-avx2 cpu_generic_forward | any fwd"}, .compiler = "/bin/true", .folder = folder};
}

TEST(BuiltInKernels, WritesOnlyWhatDiffers) {
  const TemporaryFolder folder;
  const auto objects = compile_built_in(order_in(folder.path()));
  ASSERT_TRUE(objects) << objects.error().message;
  ASSERT_EQ(objects->size(), 1u);
  const fs::path source = fs::path(objects->front()).replace_extension(".cpp");
  const auto before = fs::last_write_time(source) - std::chrono::hours(1);
  fs::last_write_time(source, before);
  ASSERT_TRUE(compile_built_in(order_in(folder.path())));
  EXPECT_EQ(fs::last_write_time(source), before);
  fs::resize_file(source, fs::file_size(source) - 1);
  ASSERT_TRUE(compile_built_in(order_in(folder.path())));
  EXPECT_NE(fs::last_write_time(source), before);
}

/// Ends the process: with 0 if the short file was an error of the expected kind.
void build_with_short_files(const std::string& folder) {
  const rlimit most{.rlim_cur = 300, .rlim_max = 300};  // leaves room for stderr if that is a file
  setrlimit(RLIMIT_FSIZE, &most);
  const auto objects = compile_built_in(order_in(folder));
  if (!objects) std::fputs(objects.error().message.c_str(), stderr);
  _exit(!objects && objects.error().kind == ErrorKind::no_memory ? 0 : 1);
}

TEST(BuiltInKernelsDeathTest, AFullDiskIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder folder;
  EXPECT_EXIT(build_with_short_files(folder.path()), testing::ExitedWithCode(0),
              "cannot write .*\\.cpp: File too large");
}

}  // namespace
}  // namespace regard::aot
