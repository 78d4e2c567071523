// Regard's own descriptors are numbered above the standard streams, and only files with an end are read.
#include "base/descriptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/files.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

int in_a_process(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

int nothing() {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST(Descriptor, IsAboveTheStandardStreamsWhicheverAreClosed) {
  for (int closed = 1; closed < 8; ++closed) {
    const int status = in_a_process([closed] {
      for (int stream = 0; stream < 3; ++stream)
        if ((closed >> stream & 1) != 0) close(stream);
      {
        const Descriptor file(nothing()), other(nothing());
        const ForkPrivateFd own(nothing());
        for (const int number : {file.number(), other.number(), own.number()})
          if (number < 3 || fcntl(number, F_GETFD) != FD_CLOEXEC) return 1;
      }
      for (int number = 0; number < 64; ++number) {  // nothing was left open
        const bool is_open = fcntl(number, F_GETFD) >= 0;
        if (number < 3 && is_open == ((closed >> number & 1) != 0)) return 2;
      }
      return 0;
    });
    EXPECT_EQ(status, 0) << closed;
  }
}

TEST(Descriptor, HasNothingOfWhatWasPrintedBeforeItHadItsNumber) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  EXPECT_EQ(in_a_process([&] {
              close(2);
              const int opened = open(path.c_str(), O_RDWR | O_CREAT, 0600);
              if (write(2, "a line of another thread\n", 25) != 25) return 1;
              const Descriptor file(opened);
              return write(file.number(), "ours", 4) == 4 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(read_file(path, 100, Links::refused).value(), "ours");
}

TEST(Descriptor, SaysWhyThereIsNone) {
  const TemporaryFolder folder;
  errno = 0;
  EXPECT_FALSE(Descriptor(open((folder.path() + "/none").c_str(), O_RDONLY)));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(in_a_process([] {
              close(0);
              const rlimit few{3, 3};
              setrlimit(RLIMIT_NOFILE, &few);
              const Descriptor none(nothing());
              return !none && errno != 0 && fcntl(0, F_GETFD) < 0 ? 0 : 1;
            }),
            0);
}

TEST(RegularFile, HasAnEndAndNoMoreThanItsBound) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  std::ofstream(path) << "12345";
  EXPECT_EQ(read_file(path, 5, Links::refused).value(), "12345");
  EXPECT_EQ(read_file(path, 4, Links::refused).error().message, "it is larger than 4 bytes");
  fs::create_symlink(path, folder.path() + "/link");
  EXPECT_EQ(read_file(folder.path() + "/link", 5, Links::followed).value(), "12345");
  EXPECT_EQ(read_file(folder.path() + "/link", 5, Links::refused).error().message, "it is a link");

  mkfifo((folder.path() + "/pipe").c_str(), 0600);
  const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder.path() + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  for (const std::string& odd : {folder.path(), folder.path() + "/pipe", folder.path() + "/socket",
                                 std::string("/dev/zero"), std::string("/dev/null")})
    EXPECT_EQ(read_file(odd, 100, Links::followed).error().message, "it is not a file") << odd;
  close(listening);

  bool missing = false;
  EXPECT_FALSE(read_file(folder.path() + "/nothing", 5, Links::refused, &missing));
  EXPECT_TRUE(missing);
  EXPECT_FALSE(read_file(path, 4, Links::refused, &missing));
  EXPECT_FALSE(missing);
  fs::resize_file(path, std::uintmax_t{1} << 40);  // sparse: takes no disk space
  EXPECT_FALSE(read_file(path, 1 << 20, Links::refused));
}

// Files in /proc report no size before they are read.
TEST(RegularFile, OfTheSystemIsReadToItsEnd) {
  EXPECT_EQ(read_file("/proc/sys/kernel/random/boot_id", 100, Links::followed)->size(), 37u);
  std::ifstream limits("/proc/self/limits");
  const std::string all(std::istreambuf_iterator<char>(limits), {});
  EXPECT_EQ(read_file("/proc/self/limits", 1 << 20, Links::followed).value(), all);
  EXPECT_EQ(read_file("/proc/self/limits", all.size(), Links::followed).value(), all);
  EXPECT_FALSE(read_file("/proc/self/limits", all.size() - 1, Links::followed));
  EXPECT_TRUE(is_scarce(read_file("/proc/self/mem", 100, Links::followed))) << "EIO at its beginning";
}

}  // namespace
}  // namespace regard
