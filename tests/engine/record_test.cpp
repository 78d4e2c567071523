// The record of a program's problems: whole lines, each once, whatever the number of threads and processes.
#include "engine/record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "plan/record_line.h"
#include "regard/regard.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string line(int number) {
  return fmt::format("cpu-avx2 | fwd bf16 b={} hq=16 hk=4 s=1024 d=128 mask=causal", number);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Counts each line; the text must consist of whole lines. A line with only a mark is from a process that saw
/// another one's unfinished line.
std::map<std::string, int> lines_of(const std::string& path) {
  const std::string text = text_of(path);
  EXPECT_TRUE(text.empty() || text.ends_with('\n'));
  std::map<std::string, int> lines;
  std::istringstream stream(text);
  for (std::string one; std::getline(stream, one);)
    if (one != end_of_cut_line) ++lines[one];
  return lines;
}

TEST(Record, HasALineOnceHoweverManyThreadsWriteIt) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/seen.txt";
  Recorder recorder;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 50; ++i) recorder.add(path, line((i * 7 + thread) % 50));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = lines_of(path);
  EXPECT_EQ(lines.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(lines.at(line(i)), 1);
}

TEST(Record, HasWholeLinesHoweverManyProcessesWriteThem) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/seen.txt";
  constexpr int processes = 8, own = 200, shared = 20;
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    Recorder recorder;
    for (int i = 0; i < own; ++i) {
      recorder.add(path, line(1000 * process + i));
      recorder.add(path, line(100'000 + i % shared));
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const auto lines = lines_of(path);
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(processes * own + shared));
  for (int process = 0; process < processes; ++process)
    for (int i = 0; i < own; ++i) EXPECT_EQ(lines.at(line(1000 * process + i)), 1);
  for (int i = 0; i < shared; ++i) EXPECT_LE(lines.at(line(100'000 + i)), processes);
  Recorder later;  // a later process finds all lines and writes nothing
  const std::string before = text_of(path);
  for (int i = 0; i < shared; ++i) later.add(path, line(100'000 + i));
  EXPECT_EQ(text_of(path), before);
}

bool plans(const char* text) {
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = "sm_90a";
  const bool done = regard_problem_parse(text, &problem) == REGARD_OK &&
                    regard_plan_create(problem, &options, &plan) == REGARD_OK;
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
  return done;
}

/// The record of a process with the setting, and of its child.
std::string recorded_with_a_child() {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/seen.txt";
  setenv("REGARD_RECORD", path.c_str(), 1);
  const char *first = "fwd bf16 b=1 h=2 s=64 d=64", *second = "fwd bf16 b=2 h=2 s=64 d=64";
  if (!plans(first) || !plans(first)) return "no plan";
  const pid_t child = fork();
  if (child == 0) _exit(plans(first) && plans("fwd bf16 b=1 h=2 s=64 d=128") && plans(second) ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0 || !plans(second)) return "no plan in the child";
  return text_of(path);
}

// The settings of a process are read once, so the test runs in one of its own.
TEST(RecordDeathTest, HasThePlansOfAProcessAndOfItsChild) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::fputs(recorded_with_a_child().c_str(), stderr);
        _exit(0);
      },
      testing::ExitedWithCode(0),
      "^sm_90a \\| fwd bf16 b=1 h=2 s=64 d=64\nsm_90a \\| fwd bf16 b=1 h=2 s=64 d=128\n"
      "sm_90a \\| fwd bf16 b=2 h=2 s=64 d=64\n(sm_90a \\| fwd bf16 b=2 h=2 s=64 d=64\n)?$");
}

TEST(Record, AnUnfinishedLineIsMarkedByTheNextWriter) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/seen.txt";
  std::ofstream(path) << line(1) << "\n" << line(2).substr(0, 20);
  Recorder recorder;
  for (const int number : {1, 2, 3}) recorder.add(path, line(number));
  EXPECT_EQ(text_of(path),
            line(1) + "\n" + line(2).substr(0, 20) + " #cut\n" + line(2) + "\n" + line(3) + "\n");
  std::ofstream(path, std::ios::app) << line(4).substr(0, 20);  // by another process in the meantime
  const std::string before = text_of(path);
  for (const int number : {4, 5}) recorder.add(path, line(number));
  EXPECT_EQ(text_of(path), before + " #cut\n" + line(4) + "\n" + line(5) + "\n");
}

TEST(Record, ThatCannotBeWrittenIsOneWarning) {
  const TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::pair<std::string, const char*> cases[] = {
      {folder.path(), "Is a directory"},                                //
      {folder.path() + "/none/seen.txt", "No such file or directory"},  //
      {"/dev/null", "it is not a file"},
      {pipe, ""},  // any message of the system, but without waiting
  };
  for (const auto& [path, why] : cases) {
    Recorder recorder;
    testing::internal::CaptureStderr();
    for (const int number : {1, 2, 2}) recorder.add(path, line(number));
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_THAT(printed, testing::StartsWith("regard: REGARD_RECORD='")) << path;
    EXPECT_THAT(printed,
                HasSubstr("problems are not recorded, as the file cannot be written: " + std::string(why)));
    EXPECT_EQ(std::ranges::count(printed, '\n'), 1) << printed;
  }
}

}  // namespace
}  // namespace regard
