// A started program ends with the process that started it, however that ends, and nothing else is killed.
#include "compile/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/tsan_annotations.h"
#include "compile/process.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

bool until(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

/// A program that never ends, ignores every signal that it can, and has a child that does the same.
class HangingProgram : public testing::Test {
 protected:
  void SetUp() override {
#ifdef REGARD_THREAD_SANITIZER
    GTEST_SKIP() << "the sanitizer's vfork is a fork, whose child closes its parent's descriptors";
#endif
  }
  HangingProgram() {
    std::ofstream(program_) << "#!/bin/sh\ntrap '' HUP INT QUIT TERM\n"
                               "sh -c 'echo $$ > child.new; mv child.new child; exec sleep 600' &\n"
                               "exec 0</dev/null 1>/dev/null 2>/dev/null 3</dev/null 9</dev/null\n"
                               "while :; do wait; done\n";
    fs::permissions(program_, fs::perms::owner_all);
  }
  ~HangingProgram() override {
    if (const pid_t child = child_of_program()) kill(-getpgid(child), SIGKILL);
  }
  pid_t child_of_program() const {
    pid_t child = 0;
    std::ifstream(own_.path() + "/child") >> child;
    return child;
  }
  bool lives() const {
    std::string state;
    std::ifstream stat("/proc/" + std::to_string(child_of_program()) + "/stat");
    std::getline(stat, state);
    return !state.empty() && state.find(") Z") == std::string::npos;
  }
  /// Forks a process that runs the program in a thread and then calls `then`.
  pid_t process_that(const std::function<void()>& then) const {
    const pid_t process = fork();
    if (process != 0) return process;
    for (const int ends : {SIGINT, SIGTERM, SIGHUP}) signal(ends, SIG_DFL);  // a shell may have them ignored
    alarm(30);
    std::thread([this] { (void)run_process({program_}, own_.path()); }).detach();
    until([this] { return child_of_program() != 0; }, 10s);
    then();
    pause();
    _exit(0);
  }
  void expect_gone() const {
    EXPECT_TRUE(until([this] { return !lives(); }, 1s));
  }

  const TemporaryFolder own_;
  const std::string program_ = own_.path() + "/hangs";
};

TEST_F(HangingProgram, EndsWithAProcessThatIsKilled) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGSEGV}) {
    fs::remove(own_.path() + "/child");
    const pid_t process = process_that([] {});
    ASSERT_TRUE(until([this] { return child_of_program() != 0; }, 10s));
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(lives());
    kill(process, signal);
    waitpid(process, nullptr, 0);
    expect_gone();
  }
}

TEST_F(HangingProgram, EndsWithAProcessThatExits) {
  const pid_t process = process_that([] { std::quick_exit(0); });
  waitpid(process, nullptr, 0);
  ASSERT_NE(child_of_program(), 0);
  expect_gone();
}

TEST_F(HangingProgram, EndsWithAProcessWhoseForkedChildLivesOn) {
  const pid_t process = process_that([] {
    if (fork() == 0) {
      sleep(5);
      _exit(0);
    }
    kill(getpid(), SIGKILL);
  });
  waitpid(process, nullptr, 0);
  ASSERT_NE(child_of_program(), 0);
  expect_gone();
}

TEST_F(HangingProgram, LivesOnWhenAForkedChildOrAThreadEnds) {
  const pid_t process = process_that([] {
    std::thread([] {}).join();
    for (int i = 0; i < 3; ++i) {
      const pid_t child = fork();
      if (child == 0) i == 0 ? std::quick_exit(0) : i == 1 ? _exit(0) : static_cast<void>(raise(SIGKILL));
      waitpid(child, nullptr, 0);
    }
  });
  ASSERT_TRUE(until([this] { return child_of_program() != 0; }, 10s));
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(lives());
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  expect_gone();
}

TEST(Spawn, WorksWithTheStandardStreamsClosed) {
  for (int closed = 1; closed < 8; ++closed) {  // each subset of the standard streams
    const pid_t process = fork();
    if (process == 0) {
      for (int stream = 0; stream < 3; ++stream)
        if ((closed >> stream & 1) != 0) close(stream);
      const Result<Finished> finished =
          run_process({"/bin/sh", "-c",
                       "cat; for f in 0 1 2; do test -e /proc/self/fd/$f || echo closed; done; echo e >&2"},
                      "/");
      _exit(finished && finished->output == "e\n" && finished->succeeded ? 0 : 1);
    }
    int status = -1;
    waitpid(process, &status, 0);
    EXPECT_EQ(status, 0) << closed;
  }
}

TEST(Spawn, SaysWhyAProgramCannotBeRun) {
#ifdef REGARD_THREAD_SANITIZER
  GTEST_SKIP() << "the sanitizer's vfork is a fork, whose child does not share memory";
#endif
  const TemporaryFolder folder;
  const std::string none = folder.path() + "/none";
  EXPECT_EQ(run_process({none}, "/").error().message, "cannot run '" + none + "': No such file or directory");
  EXPECT_EQ(run_process({"/bin/sh"}, none).error().message,
            "cannot run '/bin/sh': No such file or directory");
  EXPECT_EQ(run_process({"/etc/passwd"}, "/").error().message, "cannot run '/etc/passwd': Permission denied");
}

}  // namespace
}  // namespace regard
