#include "cli/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "cli/failure.h"
#include "cli/held_signals.h"

namespace regard::cli {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs with and without support for files without names (O_TMPFILE).
class NewFileTest : public testing::TestWithParam<bool> {
 protected:
  NewFileTest() : folder_(testing::TempDir() + "regard-new-file-XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  ~NewFileTest() override { fs::remove_all(folder_); }

  NewFile made(const std::string& name) const { return NewFile(folder_ + "/" + name, GetParam()); }
  bool is_empty() const { return fs::is_empty(folder_); }

  /// The wait status of a child process that gets a signal while it writes a file.
  int ending(int signal) const {
    const pid_t child = fork();
    if (child == 0) {
      try {
        const HeldSignals held;
        NewFile file = made("o.npy");
        file.write(bytes("first"));
        std::raise(signal);
        file.write(bytes("second"));
        file.publish();
      } catch (const error&) {
      }
      _exit(77);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  std::string folder_;
};

TEST_P(NewFileTest, IsThereWhenPublishedAndNotBefore) {
  NewFile file = made("o.npy");
  file.write(bytes("first "));
  file.write(bytes("second"));
  EXPECT_FALSE(fs::exists(folder_ + "/o.npy"));
  file.publish();
  EXPECT_EQ(content(folder_ + "/o.npy"), "first second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_P(NewFileTest, TakesThePlaceOfAnother) {
  std::ofstream(folder_ + "/o.npy") << "before";
  {
    NewFile abandoned = made("o.npy");
    abandoned.write(bytes("half"));
  }
  EXPECT_EQ(content(folder_ + "/o.npy"), "before");
  NewFile file = made("o.npy");
  file.write(bytes("after"));
  file.publish();
  EXPECT_EQ(content(folder_ + "/o.npy"), "after");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_P(NewFileTest, HasThePermissionsOfTheFileThatWasThere) {
  for (const unsigned permissions : {0600u, 0400u, 0666u, 0755u}) {
    std::ofstream(folder_ + "/o.npy") << "before";
    fs::permissions(folder_ + "/o.npy", fs::perms{permissions});
    NewFile file = made("o.npy");
    file.write(bytes("after"));
    file.publish();
    EXPECT_EQ(content(folder_ + "/o.npy"), "after");
    EXPECT_EQ(fs::status(folder_ + "/o.npy").permissions(), fs::perms{permissions});
    fs::remove(folder_ + "/o.npy");
  }
}

TEST_P(NewFileTest, GoesWhereALinkLeads) {
  fs::create_directory(folder_ + "/elsewhere");
  std::ofstream(folder_ + "/elsewhere/o.npy") << "before";
  fs::create_symlink("elsewhere/o.npy", folder_ + "/first.npy");
  fs::create_symlink("first.npy", folder_ + "/second.npy");
  NewFile file = made("second.npy");
  EXPECT_EQ(file.path(), folder_ + "/second.npy");
  file.write(bytes("after"));
  file.publish();
  EXPECT_EQ(content(folder_ + "/elsewhere/o.npy"), "after");
  EXPECT_TRUE(fs::is_symlink(folder_ + "/first.npy") && fs::is_symlink(folder_ + "/second.npy"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/elsewhere"), {}), 1);
}

/// The reason why `make` cannot write its file; empty if it can.
std::string refusal(const std::function<NewFile()>& make) {
  try {
    make();
    return "";
  } catch (const error& refused) {
    return refused.what();
  }
}

TEST_P(NewFileTest, LeavesAsItIsWhatIsNoFile) {
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  fs::create_directory(folder_ + "/folder");
  sockaddr_un address{AF_UNIX, "socket"};
  const int socket_file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const fs::path before = fs::current_path();
  fs::current_path(folder_);  // a socket's path must be short
  ASSERT_EQ(bind(socket_file, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  fs::current_path(before);
  const int nameless = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const std::string nameless_path = "/proc/self/fd/" + std::to_string(nameless);
  const auto expect_refusal = [&](const std::string& target, const std::string& why) {
    const std::string link = folder_ + "/link";
    fs::create_symlink(target, link);
    EXPECT_EQ(refusal([&] { return made("link"); }), "cannot write " + link + ": " + why) << target;
    EXPECT_EQ(fs::read_symlink(link), target);
    fs::remove(link);
  };
  for (const char* const name : {"pipe", "socket"}) {
    const fs::file_type type = fs::status(folder_ + "/" + name).type();
    EXPECT_EQ(refusal([&] { return made(name); }),
              "cannot write " + folder_ + "/" + name + ": it is not a file");
    expect_refusal(name, "it is not a file");
    EXPECT_EQ(fs::status(folder_ + "/" + name).type(), type);
  }
  expect_refusal("/dev/null", "it is not a file");
  expect_refusal("folder", "Is a directory");
  expect_refusal("nothing", "it is a dangling link");
  expect_refusal("link", "Too many levels of symbolic links");
  if (nameless >= 0) expect_refusal(nameless_path, "it is a link to a file without a name");
  close(nameless);
  close(socket_file);
}

TEST_P(NewFileTest, IsNotTheFileThatThisProcessPrintsTo) {
  const std::string path = folder_ + "/o.npy";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    const int before = dup(stream);
    dup2(file, stream);
    const std::string why = refusal([&] { return made("o.npy"); }),
                      by_its_device = refusal([&] { return NewFile("/dev/fd/" + std::to_string(stream)); });
    dup2(before, stream);
    close(before);
    EXPECT_EQ(why, "cannot write " + path + ": this process prints to it");
    EXPECT_EQ(by_its_device,
              "cannot write /dev/fd/" + std::to_string(stream) + ": this process prints to it");
  }
  close(file);
  EXPECT_EQ(refusal([&] { return made("o.npy"); }), "");
}

TEST_P(NewFileTest, MakesItsFoldersWhenPublished) {
  {
    NewFile abandoned = made("a/b/o.npy");
    abandoned.write(bytes("half"));
  }
  EXPECT_TRUE(is_empty());
  NewFile file = made("a/b/" + std::string(250, 'n'));  // as long as a name may be
  file.write(bytes("whole"));
  file.publish();
  EXPECT_EQ(content(folder_ + "/a/b/" + std::string(250, 'n')), "whole");
}

TEST_P(NewFileTest, LeavesNothingWhenASignalEndsTheProcess) {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT}) {
    const int status = ending(signal);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << strsignal(signal) << ": " << status;
    EXPECT_TRUE(is_empty()) << strsignal(signal);
  }
}

TEST_P(NewFileTest, OfAProcessThatIgnoresHangingUpIsWritten) {
  std::signal(SIGHUP, SIG_IGN);  // as nohup does
  const int status = ending(SIGHUP);
  std::signal(SIGHUP, SIG_DFL);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 77);
  EXPECT_EQ(content(folder_ + "/o.npy"), "firstsecond");
}

INSTANTIATE_TEST_SUITE_P(, NewFileTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithoutName" : "Named"; });

TEST(NewFileWithoutName, LeavesNothingWhenKilled) {
  std::string folder = testing::TempDir() + "regard-new-file-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const int file = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0) GTEST_SKIP() << "this file system has no files without names";
  close(file);
  const pid_t child = fork();
  if (child == 0) {
    NewFile half(folder + "/o.npy");
    half.write(bytes("half"));
    std::raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace regard::cli
