#include "base/temporary.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "support/temporary_folder.h"

namespace regard {
namespace {

int open_folder(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

TEST(Temporary, IsMarkedEvenWhileAnotherChecksWhetherItIs) {
  const TemporaryFolder folder;
  const int looks = open_folder(folder.path()), uses = open_folder(folder.path()),
            later = open_folder(folder.path());
  ASSERT_EQ(flock(looks, LOCK_EX | LOCK_NB), 0);
  std::thread user([&] { mark_in_use(uses); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  close(looks);
  user.join();
  EXPECT_NE(flock(later, LOCK_EX | LOCK_NB), 0) << "it is not marked";
  EXPECT_EQ(errno, EWOULDBLOCK);
  close(uses);
  EXPECT_EQ(flock(later, LOCK_EX | LOCK_NB), 0);
  close(later);
}

}  // namespace
}  // namespace regard
