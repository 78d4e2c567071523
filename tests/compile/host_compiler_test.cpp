#include "compile/host_compiler.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/interruption.h"
#include "base/machine.h"
#include "base/settings.h"
#include "base/tsan_annotations.h"
#include "compile/host_options.h"
#include "compile/job_gate.h"
#include "compile/machine_options.h"
#include "compile/process.h"
#include "compile/quick_options.h"
#include "support/own_program.h"
#include "support/scarce_memory.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const char* const answer =
    "extern \"C\" __attribute__((visibility(\"default\"))) int answer() { return 42; }\n";

CompileRequest request(const std::string& source) {
  return {"kernel", source, {host_options.begin(), host_options.end()}};
}

/// Gives the test its own folder and a TMPDIR in it; both last until its end.
class HostCompiler : public testing::Test {
 protected:
  HostCompiler() {
    fs::create_directory(temporary_);
    if (const char* before = std::getenv("TMPDIR")) tmpdir_before_ = before;
    setenv("TMPDIR", temporary_.c_str(), 1);
  }
  ~HostCompiler() override {
    tmpdir_before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", tmpdir_before_.c_str(), 1);
  }
  /// Makes a program that answers `-v` like a compiler and otherwise runs `body`.
  std::string fake(const std::string& name, const std::string& body) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path)
        << "#!/bin/sh\nif [ \"$1\" = -v ]; then echo 'fake version 1.0 (build 7)' >&2; exit 0; fi\n"
        << body << '\n';
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  std::unique_ptr<Toolchain> compiler(const std::string& setting, double limit_seconds = 300) {
    Result<std::unique_ptr<Toolchain>> found =
        find_host_compiler(setting, std::getenv("PATH"), limit_seconds);
    if (!found) ADD_FAILURE() << found.error().message;
    return found ? std::move(*found) : nullptr;
  }
  bool temporary_is_empty() const { return fs::is_empty(temporary_); }

  const TemporaryFolder own_;
  const std::string folder_ = own_.path(), temporary_ = folder_ + "/temporary files";
  std::string tmpdir_before_;
};

TEST_F(HostCompiler, MakesTheSameBytesEachTimeAndLeavesNothing) {
  const auto cxx = compiler("");
  const Result<Compiled> first = cxx->compile(request(answer));
  const Result<Compiled> second = cxx->compile(request(answer));
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  ASSERT_GT(first->binary.size(), 1000u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(first->binary.data()), 4),
            "\x7f"
            "ELF");
  EXPECT_TRUE(first->binary == second->binary);
  EXPECT_GT(first->seconds, 0);
  EXPECT_TRUE(temporary_is_empty());
}

TEST_F(HostCompiler, WarningsOfAGoodCompileAreInTheLog) {
  const Result<Compiled> compiled =
      compiler("")->compile(request(std::string(answer) + "#warning look here\n"));
  ASSERT_TRUE(compiled);
  EXPECT_THAT(compiled->log, HasSubstr("look here"));
}

TEST_F(HostCompiler, AFailureSaysEverythingAndKeepsTheSource) {
  const std::string source = std::string(answer) + "int broken( {\n";
  const Result<Compiled> failed = compiler("")->compile(request(source));
  ASSERT_FALSE(failed);
  const std::string& message = failed.error().message;
  EXPECT_EQ(failed.error().kind, ErrorKind::no_kernel);
  EXPECT_THAT(message, HasSubstr("exit code 1"));
  EXPECT_THAT(message, HasSubstr("-std=c++20 -O2"));
  EXPECT_THAT(message, HasSubstr("error: "));
  std::vector<std::string> kept;
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) {
    if (entry.is_regular_file()) kept.push_back(entry.path());
  }
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_THAT(message, HasSubstr("'" + kept[0] + "'"));
  std::ifstream file(kept[0]);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), source);
}

TEST_F(HostCompiler, ASourceThatFailsAgainIsKeptOnce) {
  const auto kept = [&] { return std::distance(fs::directory_iterator(temporary_), {}); };
  const auto cxx = compiler(fake("fails", "echo $$ > leftover; exit 1"));
  std::string first;
  for (int i = 0; i < 3; ++i) {
    const Result<Compiled> failed = cxx->compile(request(answer));
    ASSERT_FALSE(failed);
    const std::string place = fs::directory_iterator(temporary_)->path();
    EXPECT_THAT(failed.error().message, HasSubstr("the source is kept in '" + place + "/kernel.cpp'"));
    EXPECT_EQ(kept(), 1);
    if (first.empty()) first = place;
    EXPECT_EQ(place, first);
  }
  EXPECT_FALSE(cxx->compile(request("int another;\n")));
  EXPECT_EQ(kept(), 2);
}

TEST_F(HostCompiler, ASourceWhosePlaceIsTakenIsKeptElsewhere) {
  const auto cxx = compiler(fake("fails", "exit 1"));
  EXPECT_FALSE(cxx->compile(request(answer)));
  const std::string place = fs::directory_iterator(temporary_)->path();
  const std::string elsewhere = folder_ + "/elsewhere";
  fs::rename(place, elsewhere);
  std::vector<std::function<void()>> takes = {[&] { fs::create_symlink(elsewhere, place); },
                                              [&] { std::ofstream(place) << "a file"; }};
  if (geteuid() == 0) {
    takes.emplace_back([&] {  // another user's
      fs::create_directory(place);
      std::ofstream(place + "/inside") << "his";
      ASSERT_EQ(chown(place.c_str(), 12345, 12345), 0);
    });
  }
  for (const auto& take : takes) {
    take();
    const Result<Compiled> failed = cxx->compile(request(answer));
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message,
                HasSubstr("the source is kept in '" + temporary_ + "/regard-failed-"));
    EXPECT_THAT(failed.error().message, Not(HasSubstr(place)));
    EXPECT_TRUE(fs::exists(fs::symlink_status(place)) && fs::exists(elsewhere + "/kernel.cpp"));
    EXPECT_TRUE(!fs::is_directory(fs::symlink_status(place)) || fs::exists(place + "/inside"));
    fs::remove_all(place);
  }
}

TEST_F(HostCompiler, ASourceThatIsGoneIsNotSaidToBeKept) {
  const auto cxx = compiler(fake("cleans", "rm -r \"$PWD\"; exit 1"));
  const Result<Compiled> failed = cxx->compile(request(answer));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("the source is not kept: '" + temporary_ + "/regard-"));
  EXPECT_THAT(failed.error().message, HasSubstr("No such file or directory"));
  EXPECT_TRUE(temporary_is_empty());
}

TEST_F(HostCompiler, BothStreamsAndASignalAreReported) {
  const auto cxx = compiler(fake("crashes", "echo to-output; echo to-error >&2; kill -SEGV $$"));
  const Result<Compiled> failed = cxx->compile(request(answer));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("signal 11 (Segmentation fault)"));
  EXPECT_THAT(failed.error().message, HasSubstr("to-output"));
  EXPECT_THAT(failed.error().message, HasSubstr("to-error"));
}

// Once, a FIFO was waited for, /dev/zero and 3 GB were read, and a folder was an error without a fallback.
TEST_F(HostCompiler, OutputThatIsNoFileOrTooLongIsAFailure) {
  const auto find_output = std::string("while [ \"$1\" != -o ]; do shift; done\n");
  for (const auto& [make, words] : std::vector<std::pair<std::string, std::string>>{
           {"mkfifo \"$2\"", "exit code 0, but its output is of no use: it is not a file"},
           {"mkdir \"$2\"", "exit code 0, but its output is of no use: it is not a file"},
           {"ln -s /dev/zero \"$2\"", "exit code 0, but its output is of no use: it is a link"},
           {"ln -s none \"$2\"", "exit code 0, but its output is of no use: it is a link"},
           {"truncate -s 3G \"$2\"",
            "exit code 0, but its output is of no use: it is larger than 67108864 bytes"},
           {": > \"$2\"", "exit code 0, but no output"},
           {":", "exit code 0, but no output"}}) {
    const auto start = std::chrono::steady_clock::now();
    const Result<Compiled> failed = compiler(fake("odd", find_output + make))->compile(request(answer));
    ASSERT_FALSE(failed) << make;
    EXPECT_EQ(failed.error().kind, ErrorKind::no_kernel) << "so that the fallback answers";
    EXPECT_THAT(failed.error().message, HasSubstr("compiling kernel failed (" + words + ")"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << make;
  }
}

TEST_F(HostCompiler, SuccessWithoutOutputIsAFailure) {
  const Result<Compiled> failed = compiler(fake("lazy", "exit 0"))->compile(request(answer));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("exit code 0, but no output"));
}

TEST_F(HostCompiler, AHangingCompileIsKilledWithItsChildren) {
  const std::string mark = folder_ + "/child";
  const auto cxx = compiler(fake("hangs", "sh -c 'echo $$ > \"" + mark + "\"; exec sleep 60' & wait"), 0.5);
  const Result<Compiled> failed = cxx->compile(request(answer));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("killed after 0.5 s"));
  pid_t child = 0;
  std::ifstream(mark) >> child;
  ASSERT_GT(child, 1);
  bool gone = false;
  for (int i = 0; i < 200 && !gone; ++i) {  // it was killed, but may not have been reaped yet
    std::string state;
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::getline(stat, state);
    gone = state.empty() || state.find(") Z") != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(gone);
}

/// The stderr output of the test with that name, run in its own process with REGARD_LOG set to `log_topics`.
std::string stderr_of(const std::string& test, const std::string& log_topics, const std::string& file) {
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    setenv("REGARD_LOG", log_topics.c_str(), 1);
    test::become_own_program("--gtest_filter=HostCompiler." + test);
    _exit(98);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ifstream text(file);
  return std::string(std::istreambuf_iterator<char>(text), {});
}

TEST_F(HostCompiler, ALongCompileSaysSoWhenAskedAndElseIsSilentWithoutATerminal) {
  const std::string text = stderr_of("AHangingCompileIsKilledWithItsChildren", "compile", folder_ + "/log");
  EXPECT_THAT(text, HasSubstr("regard compile: compiling kernel with "));
  EXPECT_THAT(text, testing::ContainsRegex(
                        "regard compile: kernel failed after (0\\.[5-9]|[1-9][0-9]*\\.[0-9]) s\n"));
  EXPECT_EQ(stderr_of("AHangingCompileIsKilledWithItsChildren", "plan", folder_ + "/log"), "");
}

TEST_F(HostCompiler, AnInterruptedCompileIsKilledAndLeavesNothing) {
  static std::string mark;
  mark = folder_ + "/runs";
  const auto cxx = compiler(fake("hangs", "echo > '" + mark + "'; sleep 60; exit 1"));
  ask_whether_interrupted([] { return static_cast<int>(fs::exists(mark)); });
  const auto start = std::chrono::steady_clock::now();
  const Result<Compiled> ended = cxx->compile(request(answer));
  const Result<Compiled> next = cxx->compile(request(answer));
  ask_whether_interrupted(nullptr);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_TRUE(is_interrupted(ended) && is_interrupted(next));
  EXPECT_TRUE(temporary_is_empty());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "there is still a child";
  EXPECT_TRUE(cxx->is_current());
}

// It once counted as a doubt about the kernel, which was then used but not kept.
TEST_F(HostCompiler, AnInterruptionAfterTheCompileIsOneToo) {
  static std::string mark;
  mark = folder_ + "/is asked again";
  const std::string compiled = folder_ + "/compiled", path = folder_ + "/wrapper";
  std::ofstream(path) << "#!/bin/sh\nif [ \"$1\" = -v ] && [ -e '" << compiled << "' ]; then echo > '" << mark
                      << "'; sleep 60; fi\n[ \"$1\" = -v ] || echo > '" << compiled << "'\nexec c++ \"$@\"\n";
  fs::permissions(path, fs::perms::owner_all);
  const auto cxx = compiler(path);
  ask_whether_interrupted([] { return static_cast<int>(fs::exists(mark)); });
  const Result<Compiled> ended = cxx->compile(request(answer));
  ask_whether_interrupted(nullptr);
  EXPECT_TRUE(fs::exists(mark) && is_interrupted(ended));
}

TEST_F(HostCompiler, OfAFloodTheBeginningAndTheEndAreKept) {
  constexpr std::size_t flood = 5'000'000;
  const std::string floods = fake(
      "floods", "echo begin; head -c " + std::to_string(flood) + " /dev/zero | tr '\\0' a; echo; echo end");
  const Result<Finished> finished = run_process({floods}, folder_);
  ASSERT_TRUE(finished);
  EXPECT_TRUE(finished->succeeded);
  const std::string left_out =
      std::to_string(std::string("begin\n\nend\n").size() + flood - 2 * kept_output_bytes);
  const std::string& output = finished->output;
  EXPECT_TRUE(output.starts_with("begin\naaaa"));
  EXPECT_TRUE(output.ends_with("aaaa\nend\n"));
  EXPECT_NE(output.find("aaaa\n[" + left_out + " bytes left out]\naaaa"), output.npos);
  EXPECT_LT(output.size(), 2 * kept_output_bytes + 100);

  const std::string talks = fake("talks", "head -c 2000000 /dev/zero");
  EXPECT_EQ(run_process({talks}, folder_)->output, std::string(2'000'000, '\0'));
}

TEST_F(HostCompiler, OneThatNeverStopsTalkingIsStoppedInTimeAndFillsNoMemory) {
  const Result<Finished> finished = run_process({fake("talks", "exec yes")}, folder_, {.seconds = 0.3});
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->how, "killed after 0.3 s");
  EXPECT_EQ(finished->ended(), "was killed after 0.3 s");
  EXPECT_LT(finished->output.size(), 2 * kept_output_bytes + 100);
}

TEST_F(HostCompiler, NothingIsLeftRunningWhenMemoryRunsOutMeanwhile) {
  if (!test::can_be_scarce) GTEST_SKIP() << "memory cannot be made scarce in this build";
  const std::string talks = fake("talks", "head -c 300000 /dev/zero; exec sleep 60");
  {
    const test::ScarceMemory scarce(100'000);
    EXPECT_THROW((void)run_process({talks}, folder_), std::bad_alloc);
  }
  int status = 0;
  EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1) << "there is still a child";
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(HostCompiler, ACompileServerThatLivesOnIsNotWaitedFor) {
  const std::string mark = folder_ + "/server";
  const auto cxx = compiler(fake("starts", "sleep 60 &\necho $! > '" + mark + "'\nexec c++ \"$@\""));
  EXPECT_TRUE(cxx->compile(request(answer)));
  pid_t server = 0;
  std::ifstream(mark) >> server;
  ASSERT_GT(server, 1);
  EXPECT_EQ(kill(server, SIGKILL), 0) << "it had already ended, so this test showed nothing";
}

TEST_F(HostCompiler, ChildrenInheritNoFiles) {
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as a careless host program would
  const int as_lifeline = fcntl(leaked, F_DUPFD, 10);
  const auto cxx = compiler(fake("looks", "ls /proc/self/fd >&2; exit 3"));
  const Result<Compiled> failed = cxx->compile(request(answer));
  close(leaked);
  close(as_lifeline);
  ASSERT_FALSE(failed);
  // 0, 1, 2, the folder that ls has open (3), and the lifeline (10).
#ifdef REGARD_THREAD_SANITIZER
  const char* const open_files = "0\n1\n2\n3\n";  // its vfork is a fork, whose child closes the lifeline
#else
  const char* const open_files = "0\n1\n10\n2\n3\n";
#endif
  EXPECT_THAT(failed.error().message, testing::EndsWith(std::string("said:\n") + open_files));
}

TEST_F(HostCompiler, WorksWhereTheProgramIgnoresItsChildren) {
  struct sigaction ignore = {}, before;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &before);
  const auto cxx = compiler("");
  const Result<Compiled> good = cxx->compile(request(answer));
  const Result<Compiled> bad = cxx->compile(request("int broken( {\n"));
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_TRUE(good);
  EXPECT_FALSE(bad);
}

TEST_F(HostCompiler, ATemporaryFolderThatCannotBeWrittenIsNamed) {
  const auto cxx = compiler("");
  setenv("TMPDIR", (folder_ + "/none").c_str(), 1);
  const Result<Compiled> failed = cxx->compile(request(answer));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("'" + folder_ + "/none'"));
  EXPECT_THAT(failed.error().message, HasSubstr("set TMPDIR"));
}

TEST_F(HostCompiler, WithoutACompilerTheErrorSaysWhatWasSearchedAndWhatToInstall) {
  const auto none = find_host_compiler("", folder_ + ":" + folder_ + "/none");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("searched c++, g++, clang++ on PATH (" + folder_));
  EXPECT_THAT(none.error().message, HasSubstr("install g++ or set REGARD_CXX"));
}

TEST_F(HostCompiler, ABadSettingIsNamedAndNothingElseIsTaken) {
  for (const std::string& setting :
       {folder_ + "/none/c++", std::string("g++ -m32"), std::string("/bin/true")}) {
    const auto none = find_host_compiler(setting, std::getenv("PATH"));
    ASSERT_FALSE(none) << setting;
    EXPECT_THAT(none.error().message, HasSubstr("REGARD_CXX='" + setting + "'"));
  }
}

TEST_F(HostCompiler, AnUnusableCompilerOnThePathIsPassedOver) {
  std::ofstream(folder_ + "/c++") << "#!/bin/sh\nexit 1\n";
  fs::permissions(folder_ + "/c++", fs::perms::owner_all);
  fake("g++", "exit 0");
  const auto found = find_host_compiler("", folder_);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ((*found)->name(), "g++ (" + folder_ + "/g++)");
}

TEST_F(HostCompiler, AForkedChildFindsOneWhileAThreadOfItsParentIsLooking) {
  const std::string mark = folder_ + "/asked", slow = folder_ + "/c++";
  std::ofstream(slow) << "#!/bin/sh\necho asked >> '" << mark
                      << "'\nsleep 1\necho 'fake version 1.0 (build 7)' >&2\n";
  fs::permissions(slow, fs::perms::owner_all);
  const auto found = [] { return toolchain_for(Target{}).has_value(); };
  const pid_t parent = fork();  // a process that has not looked for a compiler yet
  if (parent == 0) {
    unsetenv("REGARD_CXX");
    setenv("PATH", (folder_ + ":" + std::getenv("PATH")).c_str(), 1);
    std::thread looks(found);
    while (!fs::exists(mark)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      _exit(found() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    looks.join();
    _exit(status == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(parent, &status, 0);
  EXPECT_EQ(status, 0) << "the child hung or found none";
  std::ifstream text(mark);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(text), {}), "asked\nasked\n");
}

TEST_F(HostCompiler, ThatThereWasNoRoomToAskOneIsNotKept) {
  fake("c++", "exit 0");
  const pid_t process = fork();  // a process that has not looked for a compiler yet
  if (process == 0) {
    unsetenv("REGARD_CXX");
    setenv("PATH", folder_.c_str(), 1);
    rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    const int next = dup(0);
    close(next);
    const rlimit none = {static_cast<rlim_t>(next), files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    const Result<Toolchain*> without = toolchain_for(Target{});
    setrlimit(RLIMIT_NOFILE, &files);
    if (without || without.error().kind != ErrorKind::no_memory) _exit(1);
    _exit(toolchain_for(Target{}) ? 0 : 2);
  }
  int status = 0;
  waitpid(process, &status, 0);
  EXPECT_EQ(status, 0);
}

// It was once reported as replaced.
TEST_F(HostCompiler, AWrapperThatCannotBeAskedAgainNowWasNotReplaced) {
  const std::string path = folder_ + "/wrapper", mark = folder_ + "/asked";
  std::ofstream(path) << "#!/bin/sh\nif [ \"$1\" != -v ]; then exec c++ \"$@\"; fi\n"
                      << "echo 'fake version 1.0 (build 7)' >&2\n"
                      << "if [ -e '" << mark << "' ]; then echo 'Reading specs from /proc/self/mem' >&2; fi\n"
                      << ": > '" << mark << "'\n";
  fs::permissions(path, fs::perms::owner_all);
  const auto cxx = compiler(path);
  const Result<Compiled> compiled = cxx->compile(request(answer));
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_THAT(compiled->doubt, testing::StartsWith("could not be asked again what it is: cannot read "));
  EXPECT_TRUE(cxx->is_current());
}

TEST_F(HostCompiler, TheIdentityHasWhatIsAddedToEveryCommand) {
  const auto cxx = compiler("");
  const std::string identity = cxx->identity();
  const auto quick = quick_options(identity);
  EXPECT_FALSE(quick.empty()) << identity;
  for (std::string_view option : quick) EXPECT_THAT(identity, HasSubstr(" " + std::string(option) + " "));
  EXPECT_THAT(identity, HasSubstr("-shared -nostdlib -lc"));
}

TEST_F(HostCompiler, TheIdentityHasNoPath) {
  const std::string here = compiler(fake("one", "exit 0"))->identity();
  fs::create_directory(folder_ + "/elsewhere");
  EXPECT_EQ(here, compiler(fake("elsewhere/two", "exit 0"))->identity());
  EXPECT_THAT(here, HasSubstr("fake version 1.0 (build 7)"));
  EXPECT_THAT(here, HasSubstr("-shared"));
  EXPECT_THAT(compiler("")->identity(), Not(HasSubstr("/usr/")));
}

TEST(CompilerIdentity, TakesVersionAndMachine) {
  EXPECT_EQ(compiler_identity("Using built-in specs.\nCOLLECT_GCC=/usr/bin/g++\nTarget: x86_64-linux-gnu\n"
                              "Configured with: ../src/configure --with version 3 --prefix=/usr\n"
                              "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1) \n"),
            "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1); Target: x86_64-linux-gnu");
  EXPECT_EQ(compiler_identity("Debian clang version 19.1.7 (3~deb12u1)\nTarget: x86_64-pc-linux-gnu\n"
                              "Thread model: posix\nInstalledDir: /usr/lib/llvm-19/bin\n"),
            "Debian clang version 19.1.7 (3~deb12u1); Target: x86_64-pc-linux-gnu");
  EXPECT_EQ(compiler_identity("hello\n"), "");
}

TEST(CompileCommand, PastesIntoAShell) {
  constexpr std::string_view quick[] = {"-O1"};
  EXPECT_EQ(shell_text(host_compile_command("/opt/my tools/c++", {"-O2"}, quick, "a.cpp", "it's.so")),
            "'/opt/my tools/c++' -O2 -O1 -shared -nostdlib -lc -x c++ -o 'it'\\''s.so' a.cpp");
  EXPECT_EQ(shell_text({"c++", "it's\\one\nline\x1b"}), "c++ $'it\\'s\\\\one\\nline\\x1b'");
}

TEST(MachineOptions, NeedNoFunctionsOfLibgcc) {
  for (const char* identity : {"gcc version 12.2.0 (Debian 12.2.0-14); Target: aarch64-linux-gnu",
                               "Debian clang version 19.1.7 (3~deb12u1); Target: aarch64-unknown-linux-gnu"})
    EXPECT_THAT(machine_options(identity), testing::ElementsAre("-mno-outline-atomics"));
  EXPECT_TRUE(machine_options("gcc version 12.2.0; Target: x86_64-linux-gnu").empty());
}

TEST(QuickOptions, AreThoseOfTheCompilersThatKnowThem) {
  const auto words = [](std::string_view identity) {
    const auto options = quick_options(identity);
    return std::vector<std::string_view>(options.begin(), options.end());
  };
  EXPECT_THAT(words("gcc version 12.2.0 (Debian 12.2.0-14); Target: x86_64-linux-gnu"),
              testing::AllOf(testing::Contains("-O1"), testing::Contains("-fno-gcse"),
                             testing::Each(testing::AnyOf("-O1", "-fexpensive-optimizations",
                                                          testing::StartsWith("-fno-")))));
  EXPECT_THAT(words("Debian clang version 19.1.7 (3~deb12u1); Target: x86_64-pc-linux-gnu"),
              testing::ElementsAre("-O1"));
  EXPECT_THAT(words("Apple clang version 15.0.0 (clang-1500.3.9.4); Target: arm64-apple-darwin23.4.0"),
              testing::ElementsAre("-O1"));
  EXPECT_THAT(words("icpc version 2021.10.0 (gcc version 12.2.0 compatibility)"), testing::IsEmpty());
  EXPECT_THAT(words("fake version 1.0 (build 7)"), testing::IsEmpty());
}

TEST(CompileJobs, AreBoundedByCoresAndMemory) {
  EXPECT_EQ(compile_jobs(0, 64, 100'000'000'000), 64);
  EXPECT_EQ(compile_jobs(0, 64, 1'000'000'000), 3);
  EXPECT_EQ(compile_jobs(0, 8, 0), 1);
  EXPECT_EQ(compile_jobs(5, 1, 0), 5);
}

/// Runs `body` in its own process; whether it returned true.
bool in_a_process(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

// Anyone could once take all slots by guessing their names, and each compile took 300 s longer.
TEST(CompileSlot, CannotBeTakenByOtherUsers) {
  EXPECT_TRUE(in_a_process([] {
    std::vector<int> taken;
    for (int number = 0; number < 64; ++number) {
      const std::string name = "regard-compile-" + std::to_string(geteuid()) + "-" + std::to_string(number);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      name.copy(address.sun_path + 1, name.size());
      taken.push_back(socket(AF_UNIX, SOCK_DGRAM, 0));
      bind(taken.back(), reinterpret_cast<const sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
    }
    const TemporaryFolder runtime;
    setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    const auto start = std::chrono::steady_clock::now();
    const CompileSlot slot(30);
    return std::chrono::steady_clock::now() - start < std::chrono::seconds(10);
  }));
}

TEST(CompileSlot, IsInAFolderOfThisUserOnly) {
  const TemporaryFolder runtime;
  const auto places = [&] {
    std::error_code none;
    fs::directory_iterator items(runtime.path() + "/regard", none);
    return none ? -1 : std::distance(begin(items), end(items));
  };
  EXPECT_TRUE(in_a_process([&] {
    setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    {
      const CompileSlot slot(30);
      if (places() != 1) return false;
    }
    return places() == 0;
  }));
  fs::remove_all(runtime.path() + "/regard");
  fs::permissions(runtime.path(), fs::perms::all);  // others can write there
  EXPECT_TRUE(in_a_process([&] {
    setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    const CompileSlot slot(30);
    return places() == -1;
  }));
}

TEST(CompileSlot, ACompileThatWaitsTooLongForOneGoesOn) {
  const pid_t child = fork();  // a process with slots of its own, whose alarm ends a hang
  if (child == 0) {
    alarm(20);
    const std::int64_t asked = settings() ? settings()->compile_jobs : 0;
    std::vector<std::unique_ptr<CompileSlot>> slots;
    for (int i = compile_jobs(asked, usable_cores(), INT64_MAX); i >= 0; --i)
      slots.push_back(std::make_unique<CompileSlot>(0.001));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(CompileSlot, IsNotWaitedForAfterAnInterruption) {
  EXPECT_TRUE(in_a_process([] {
    const TemporaryFolder runtime;
    setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    std::vector<std::unique_ptr<CompileSlot>> slots;
    const std::int64_t asked = settings() ? settings()->compile_jobs : 0;
    for (int i = compile_jobs(asked, usable_cores(), INT64_MAX); i > 0; --i)
      slots.push_back(std::make_unique<CompileSlot>(0.001));
    ask_whether_interrupted([] { return 1; });
    const auto start = std::chrono::steady_clock::now();
    const CompileSlot slot(30);
    return std::chrono::steady_clock::now() - start < std::chrono::seconds(10);
  }));
}

// An exception after this process had taken its slot once kept the slot forever.
TEST(CompileSlot, IsGivenBackWhereMemoryRunsOutWhileItIsMade) {
  if (!test::can_be_scarce) GTEST_SKIP() << "memory cannot be made scarce in this build";
  EXPECT_TRUE(in_a_process([] {
    const TemporaryFolder runtime;
    setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    {
      const CompileSlot first(1);
    }
    int thrown = 0;
    for (int i = 0; i < 200; ++i) {  // more often than there are slots
      try {
        const test::ScarceMemory scarce(16 + static_cast<std::size_t>(i % 64));
        const CompileSlot slot(0.001);
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
    }
    const auto start = std::chrono::steady_clock::now();
    const CompileSlot slot(10);
    return thrown > 100 && std::chrono::steady_clock::now() - start < std::chrono::seconds(5);
  }));
}

TEST(Toolchain, IsFoundOnce) {
  const Target cpu;
  const Result<Toolchain*> first = toolchain_for(cpu);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*first, *toolchain_for(cpu));
}

}  // namespace
}  // namespace regard
