// The names in a folder, or the reason why it cannot be read.
#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace regard {
namespace {

TEST(Folder, HasItsNames) {
  const TemporaryFolder folder;
  EXPECT_THAT(*read_names(folder.path()), testing::IsEmpty());
  std::ofstream(folder.path() + "/a") << "";
  std::ofstream(folder.path() + "/b c") << "";
  EXPECT_THAT(*read_names(folder.path()), testing::UnorderedElementsAre("a", "b c"));
}

TEST(Folder, ThatCannotBeReadIsAnError) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/none";
  const Result<std::vector<std::string>> none = read_names(path);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::invalid);
  EXPECT_EQ(none.error().message, "it cannot be read: No such file or directory");
  EXPECT_THAT(names_in(path), testing::IsEmpty());
}

TEST(Folder, ThatLacksADescriptorMayBeReadLater) {
  const TemporaryFolder folder;
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  const Result<std::vector<std::string>> names = read_names(folder.path());
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(names);
  EXPECT_EQ(names.error().kind, ErrorKind::no_memory);
}

}  // namespace
}  // namespace regard
