// Other users who could have written a bundle.
#include "bundle/access.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle_fixture.h"

namespace regard {
namespace {

class BundleAccess : public BundleTest {
 protected:
  /// Sets the modes of the bundle's file and of its folder.
  void set_modes(mode_t file, mode_t of_folder) const {
    ASSERT_EQ(chmod(path_.c_str(), file), 0);
    ASSERT_EQ(chmod(folder().c_str(), of_folder), 0);
  }
  std::string world_writable() const { return bundle::world_writable(open(path_)->location()); }
  std::string to_another() const { return bundle::writable_by_another(open(path_)->location()); }

  const std::string path_ = write_kernels("a", {1});
};

TEST_F(BundleAccess, OfOneUserOnlyIsNotReported) {
  for (const auto& [file, of_folder] :
       {std::pair(0600, 0700), std::pair(0644, 0755), std::pair(0664, 0775)}) {
    set_modes(static_cast<mode_t>(file), static_cast<mode_t>(of_folder));
    EXPECT_EQ(world_writable(), "");
    EXPECT_EQ(to_another(), "") << "the group is this process's own";
  }
}

TEST_F(BundleAccess, OfEveryoneIsReported) {
  set_modes(0666, 0755);
  EXPECT_EQ(world_writable(), "it is world-writable (mode 666)");
  set_modes(0644, 0777);
  EXPECT_EQ(world_writable(), "its folder is world-writable (mode 777)");
  std::filesystem::create_symlink(path_, in_folder("link"));
  EXPECT_EQ(bundle::world_writable(open(in_folder("link"))->location()), world_writable());
  set_modes(0644, 01777);
  EXPECT_EQ(world_writable(), "") << "as in /tmp, where no one can replace other users' files";
}

TEST_F(BundleAccess, OfAnotherUserOrGroupIsReported) {
  const auto give = [](const std::string& path, uid_t user, gid_t group) {
    return chown(path.c_str(), user, group) == 0;
  };
  if (geteuid() != 0 || !give(path_, 12345, 0)) GTEST_SKIP() << "needs root";
  EXPECT_EQ(to_another(), "it belongs to user 12345");
  give(path_, 0, 12345);
  EXPECT_EQ(to_another(), "");
  set_modes(0664, 0755);
  EXPECT_EQ(to_another(), "group 12345 can write it");
  set_modes(0644, 0775);
  give(folder(), 0, 12345);
  EXPECT_EQ(to_another(), "group 12345 can write to its folder");
  give(folder(), 12345, 0);
  EXPECT_EQ(to_another(), "its folder belongs to user 12345");
  EXPECT_EQ(world_writable(), "");
}

TEST_F(BundleAccess, OfOneInMemoryIsTheProgramsResponsibility) {
  const std::string bytes = read_bytes(path_);
  const auto bundle = Bundle::in_memory(path_, std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(bundle);
  EXPECT_EQ(
      bundle::world_writable((*bundle)->location()) + bundle::writable_by_another((*bundle)->location()), "");
}

}  // namespace
}  // namespace regard
