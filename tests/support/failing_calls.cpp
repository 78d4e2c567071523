#include "support/failing_calls.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "support/sanitized.h"

#if defined(__x86_64__)
#include <sys/user.h>
#endif

namespace regard::test {

// Sanitizers make system calls themselves, and end the process if these fail.
#if defined(__x86_64__) && !defined(REGARD_SANITIZED)
namespace {

/// System calls that do not exist, by which the child reports where it is.
constexpr long begins = 100000, ends = 100001;

// Not in the list: calls that cannot fail, calls that programs cannot go on without (futex, the signal
// masks), close, which has closed the descriptor even if it reports failure, and brk, which has no errno:
// malloc failures are tested elsewhere.
constexpr long may_fail[] = {
    SYS_access,       SYS_arch_prctl, SYS_bind,

    SYS_chmod,        SYS_clone,      SYS_clone3,
    SYS_connect,      SYS_dup,        SYS_dup2,
    SYS_faccessat,    SYS_fchmod,     SYS_fcntl,
    SYS_flock,        SYS_fstat,      SYS_fsync,
    SYS_ftruncate,    SYS_getcwd,     SYS_getdents64,
    SYS_ioctl,        SYS_lseek,      SYS_lstat,
    SYS_memfd_create, SYS_mkdir,      SYS_mkdirat,
    SYS_mmap,         SYS_mprotect,   SYS_mremap,
    SYS_newfstatat,   SYS_open,       SYS_openat,
    SYS_pipe2,        SYS_poll,       SYS_prctl,
    SYS_pread64,      SYS_prlimit64,  SYS_read,
    SYS_readlink,     SYS_readlinkat, SYS_rename,
    SYS_renameat,     SYS_rmdir,      SYS_sched_getaffinity,
    SYS_socket,       SYS_stat,       SYS_statx,
    SYS_sysinfo,      SYS_unlink,     SYS_unlinkat,
    SYS_utimensat,    SYS_vfork,      SYS_wait4,
    SYS_write,
};

bool listed(long number) {
  return std::ranges::find(may_fail, number) != std::end(may_fail);
}

/// Lets the child continue to its next stop; false when it has ended.
bool go_on(pid_t child, int& status, int signal = 0) {
  return ptrace(PTRACE_SYSCALL, child, nullptr, signal) == 0 && waitpid(child, &status, __WALL) == child &&
         WIFSTOPPED(status);
}

/// Traces the child to its end, and returns its status.
int watch(pid_t child, long n, int error, bool& failed) {
  int status = 0;
  waitpid(child, &status, 0);
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  bool counts = false, entering = true, fails = false;
  long seen = 0;
  int signal = 0;
  failed = false;
  while (go_on(child, status, signal)) {
    signal = 0;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      signal = WSTOPSIG(status);
      continue;
    }
    user_regs_struct registers;
    ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    const long number = static_cast<long>(registers.orig_rax);
    if (entering) {
      if (number == begins || number == ends) counts = number == begins;
      if (counts && listed(number) && ++seen == n) {
        registers.orig_rax = static_cast<unsigned long long>(-1);  // no call at all
        ptrace(PTRACE_SETREGS, child, nullptr, &registers);
        fails = failed = true;
      }
    } else if (fails) {
      registers.rax = static_cast<unsigned long long>(-static_cast<long long>(error));
      ptrace(PTRACE_SETREGS, child, nullptr, &registers);
      fails = false;
    }
    entering = !entering;
  }
  return status;
}

}  // namespace

bool system_calls_can_fail() {
  const pid_t child = fork();
  if (child == 0) _exit(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string with_failing_call(long n, int error, bool& failed, const std::function<std::string()>& call,
                              const std::function<std::string()>& next) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    syscall(begins);
    std::string wrong = call();
    syscall(ends);
    if (wrong.empty()) wrong = next();
    if (write(pipe_ends[1], wrong.data(), wrong.size()) < 0) _exit(3);
    _exit(0);
  }
  close(pipe_ends[1]);
  const int status = watch(child, n, error, failed);
  std::string wrong(4096, '\0');
  wrong.resize(
      static_cast<std::size_t>(std::max<ssize_t>(read(pipe_ends[0], wrong.data(), wrong.size()), 0)));
  close(pipe_ends[0]);
  if (WIFSIGNALED(status)) wrong += "died of signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    wrong += "ended with " + std::to_string(WEXITSTATUS(status));
  return wrong;
}

#else

bool system_calls_can_fail() {
  return false;
}
std::string with_failing_call(long, int, bool& failed, const std::function<std::string()>&,
                              const std::function<std::string()>&) {
  failed = false;
  return "";
}

#endif

}  // namespace regard::test
