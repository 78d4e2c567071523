#include "cli/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
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

/// With and without a file system that has files without names.
class NewFileTest : public testing::TestWithParam<bool> {
 protected:
  NewFileTest() : folder_(testing::TempDir() + "regard-new-file-XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  ~NewFileTest() override { fs::remove_all(folder_); }

  NewFile made(const std::string& name) const { return NewFile(folder_ + "/" + name, GetParam()); }
  bool is_empty() const { return fs::is_empty(folder_); }

  /// How a child process ends that writes a file and gets a signal in the middle of it.
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

TEST_P(NewFileTest, TakesThePlaceOfALinkToWhatIsNoFile) {
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder_ + "/o.npy");
  NewFile file = made("o.npy");
  file.write(bytes("after"));
  file.publish();
  EXPECT_EQ(content(folder_ + "/o.npy"), "after");
  EXPECT_TRUE(fs::is_fifo(folder_ + "/pipe"));
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

TEST_P(NewFileTest, WhereAFolderOrAPipeHasItsNameFails) {
  fs::create_directories(folder_ + "/o.npy/inside");
  EXPECT_THROW(made("o.npy"), error);
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THROW(made("pipe"), error);
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
