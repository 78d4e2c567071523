#include "compile/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace regard {
namespace {

/// The lifeline's number in programs: above 9, so that scripts, which name descriptors by one digit, do not
/// close it.
constexpr int lifeline_number = 10;

/// The same as null-terminated lists of pointers, as the kernel takes them.
std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

struct Start {
  char* const* words;
  char* const* variables;
  const char* folder;
  int output, lifeline, lifeline_of_parent;
};

// The following code runs in the child, which shares its parent's memory until it runs the program: it only
// makes system calls.

void close_from(unsigned first, unsigned last) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, last, 0) == 0) return;
#endif
  rlimit files{};
  constexpr rlim_t enough = 65536;
  getrlimit(RLIMIT_NOFILE, &files);
  const auto end = static_cast<unsigned>(std::min(files.rlim_cur, enough));
  for (unsigned number = first; number < end && number <= last; ++number) close(static_cast<int>(number));
}

bool set_streams(const Start& start) {
  const int nothing = open("/dev/null", O_RDONLY);
  return nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(start.output, STDOUT_FILENO) >= 0 &&
         dup2(start.output, STDERR_FILENO) >= 0;
}

/// Whether the parent is still alive. Where the pipe cannot have that number, or no owner, the program runs
/// without a lifeline.
bool hold(const Start& start) {
  close(start.lifeline_of_parent);
  if (start.lifeline == lifeline_number) {
    fcntl(lifeline_number, F_SETFD, 0);
  } else if (dup2(start.lifeline, lifeline_number) < 0) {
    close(lifeline_number);  // the host program's
    return true;
  }
  fcntl(lifeline_number, F_SETOWN, -getpid());
  fcntl(lifeline_number, F_SETSIG, SIGKILL);
  fcntl(lifeline_number, F_SETFL, O_ASYNC);
  pollfd end{lifeline_number, POLLIN, 0};  // the parent may have died before
  return poll(&end, 1, 0) != 1 || (end.revents & POLLHUP) == 0;
}

void reset_signals() {
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &usual, nullptr);
}

[[noreturn]] void run_in_child(const Start& start, volatile int& failure) {
  reset_signals();
  if (setpgid(0, 0) == 0 && chdir(start.folder) == 0 && set_streams(start) && hold(start)) {
    close_from(STDERR_FILENO + 1, lifeline_number - 1);
    close_from(lifeline_number + 1, ~0u);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(start.words[0], start.words, start.variables);
  }
  failure = errno;
  _exit(127);
}

/// Blocks all signals in this thread: a handler would run in the child, on its parent's memory.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

/// posix_spawn cannot set the owner of a descriptor, and a parent that set it afterwards might die first.
__attribute__((noinline)) int start_child(const Start& start, pid_t& process) {
  volatile int failure = 0;
  process = vfork();  // NOLINT: fork would copy the page tables of the whole host program
  if (process == 0) run_in_child(start, failure);
  return process < 0 ? errno : failure;
}

}  // namespace

Lifeline::Lifeline() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  theirs_ = ForkPrivateFd(ends[0]);
  ours_ = ForkPrivateFd(ends[1]);
}

Lifeline::~Lifeline() {
  if (theirs_) fcntl(theirs_.number(), F_SETFL, 0);
}

int spawn(Spawn request, pid_t& process) {
  const std::vector<char*> words = pointers(request.command), variables = pointers(request.environment);
  const Start start{words.data(),   variables.data(),          request.folder.c_str(),
                    request.output, request.lifeline.theirs(), request.lifeline.ours()};
  const WithoutSignals blocked;
  const int error = start_child(start, process);
  if (error != 0 && process > 0) waitpid(process, nullptr, 0);
  return error;
}

}  // namespace regard
