// Bundles of a process: added while it runs, from several threads, and inherited by a forked child.
#include "engine/bundles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bundle/writer.h"
#include "regard/regard.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

using ::testing::HasSubstr;

std::string empty_bundle(const TemporaryFolder& folder, const std::string& name) {
  const std::string path = folder.path() + "/" + name;
  EXPECT_TRUE(write_bundle(path, {name, "0.1.0", "jit"}, {}));
  return path;
}

int listed(const std::string& path) {
  const auto all = bundles();
  int count = 0;
  for (const OpenBundle& open : (*all)->others) count += open.path == path && open.bundle != nullptr;
  return count;
}

TEST(Bundles, OneThatIsAddedTwiceIsThereOnce) {
  const TemporaryFolder folder;
  const std::string path = empty_bundle(folder, "one");
  const int before = added_bundles();
  EXPECT_TRUE(add_bundle(path));
  const auto list = bundles();
  EXPECT_TRUE(add_bundle(path));
  EXPECT_EQ(listed(path), 1);
  EXPECT_EQ(added_bundles(), before + 1);
  EXPECT_EQ(*bundles(), *list) << "an unchanged list is not made again";
}

TEST(Bundles, OneThatWasReplacedTakesThePlaceOfTheOlder) {
  const TemporaryFolder folder;
  const std::string path = empty_bundle(folder, "one");
  const int before = added_bundles();
  EXPECT_TRUE(add_bundle(path));
  EXPECT_TRUE(write_bundle(path, {"another", "0.1.0", "jit"}, {}));
  EXPECT_TRUE(add_bundle(path));
  EXPECT_EQ(listed(path), 1);
  EXPECT_EQ((*bundles())->others.back().bundle->about().title, "another");
  EXPECT_EQ(added_bundles(), before + 2);
}

TEST(Bundles, AddingOneCostsNoDescriptor) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) paths.push_back(empty_bundle(folder, std::to_string(i)));
  rlimit unlimited;
  getrlimit(RLIMIT_NOFILE, &unlimited);
  rlimit limit = unlimited;
  limit.rlim_cur = 32;
  setrlimit(RLIMIT_NOFILE, &limit);
  int added = 0;
  for (const std::string& path : paths) added += add_bundle(path) ? 1 : 0;
  setrlimit(RLIMIT_NOFILE, &unlimited);
  EXPECT_EQ(added, 40);
}

// Adding 4,000 bundles once kept 1.1 GB of earlier lists.
TEST(Bundles, AnEarlierListGoesWithItsLastReader) {
  const TemporaryFolder folder;
  ASSERT_TRUE(add_bundle(empty_bundle(folder, "first")));
  std::weak_ptr<const Bundles> earlier = *bundles();
  {
    const auto reader = bundles();
    ASSERT_TRUE(add_bundle(empty_bundle(folder, "second")));
    EXPECT_FALSE(earlier.expired()) << "a reader still has it";
  }
  EXPECT_TRUE(earlier.expired());
}

TEST(Bundles, OneThatAnyoneCanWriteIsRefused) {
  const TemporaryFolder folder;
  const std::string path = empty_bundle(folder, "one");
  ASSERT_EQ(chmod(path.c_str(), 0646), 0);
  const Status open_file = add_bundle(path);
  ASSERT_FALSE(open_file);
  EXPECT_EQ(open_file.error().kind, ErrorKind::refused);
  EXPECT_THAT(open_file.error().message,
              HasSubstr("it is world-writable (mode 646), and the kernels in it are executed"));
  chmod(path.c_str(), 0644);
  chmod(folder.path().c_str(), 0777);
  EXPECT_THAT(add_bundle(path).error().message, HasSubstr("its folder is world-writable (mode 777)"));
  EXPECT_EQ(listed(path), 0);
  chmod(folder.path().c_str(), 01777);
  EXPECT_TRUE(add_bundle(path));
}

TEST(Bundles, ThreadsAddTheirsInParallel) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 8; ++i) paths.push_back(empty_bundle(folder, "of thread " + std::to_string(i)));
  {
    std::vector<std::jthread> threads;
    for (const std::string& path : paths) threads.emplace_back([&path] { EXPECT_TRUE(add_bundle(path)); });
  }
  for (const std::string& path : paths) EXPECT_EQ(listed(path), 1) << path;
}

TEST(Bundles, AForkedChildHasThoseOfItsParent) {
  const TemporaryFolder folder;
  const std::string path = empty_bundle(folder, "of the parent");
  ASSERT_TRUE(add_bundle(path));
  const pid_t child = fork();
  if (child == 0) _exit(listed(path) == 1 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Bundles, TheCAbiSaysWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string none = folder.path() + "/none";
  EXPECT_EQ(regard_bundle_add(nullptr), REGARD_INVALID);
  EXPECT_EQ(regard_bundle_add(none.c_str()), REGARD_INVALID);
  EXPECT_THAT(regard_status_message(), HasSubstr("none cannot be used: it cannot be opened"));
}

}  // namespace
}  // namespace regard
