#include "compile/process.h"
#include "base/printable.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

extern char** environ;  // NOLINT: POSIX

namespace regard {
namespace {

using Clock = std::chrono::steady_clock;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close_now(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  void close_now() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

// This process's environment with `changes`, and messages in English.
std::vector<std::string> environment_with(std::vector<std::string> changes) {
  changes.emplace_back("LC_ALL=C");
  const auto name_of = [](std::string_view variable) { return variable.substr(0, variable.find('=')); };
  std::vector<std::string> variables;
  for (const std::string& change : changes)
    if (change.find('=') != std::string::npos) variables.push_back(change);
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const bool changed = std::ranges::any_of(
        changes, [&](const std::string& change) { return name_of(change) == name_of(*variable); });
    if (!changed) variables.emplace_back(*variable);
  }
  return variables;
}

// The program becomes the leader of its own process group, so that its children can be killed with it.
int spawn(std::vector<std::string> command, const std::string& folder,
          const std::vector<std::string>& changes, int output, pid_t& process) {
  std::vector<std::string> environment = environment_with(changes);
  const std::vector<char*> words = pointers(command), variables = pointers(environment);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
  // Our own files close on exec; those that the host program opened without that flag are closed here.
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
#endif
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error =
      posix_spawn(&process, command[0].c_str(), &actions, &attributes, words.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// What a program says: all of it, or its beginning and its end.
class Transcript {
 public:
  void add(std::string_view text) {
    const std::size_t room = std::min(text.size(), kept_output_bytes - first_.size());
    first_ += text.substr(0, room);
    last_ += text.substr(room);
    if (last_.size() > 2 * kept_output_bytes) cut();
  }
  std::string text() {
    cut();
    return left_out_ == 0 ? first_ + last_
                          : fmt::format("{}\n[{} bytes left out]\n{}", first_, left_out_, last_);
  }

 private:
  void cut() {
    if (last_.size() <= kept_output_bytes) return;
    const std::size_t more = last_.size() - kept_output_bytes;
    last_.erase(0, more);
    left_out_ += more;
  }

  std::string first_, last_;
  std::size_t left_out_ = 0;
};

// Reads what is there, but no more than a pipe holds: its writer may keep up for ever. False at the end of
// the stream.
bool drain(int file, Transcript& transcript) {
  char buffer[8192];
  for (int reads = 0; reads < (1 << 20) / static_cast<int>(sizeof buffer); ++reads) {
    const ssize_t count = read(file, buffer, sizeof buffer);
    if (count > 0) {
      transcript.add({buffer, static_cast<std::size_t>(count)});
    } else if (count == 0 || errno != EINTR) {
      return count != 0 && errno == EAGAIN;
    }
  }
  return true;
}

/// More processes, files or memory would mend some errors: the next try may succeed.
tl::unexpected<Error> cannot_run(const std::string& program, int error) {
  const bool scarce = error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
  return fail(scarce ? ErrorKind::no_memory : ErrorKind::no_kernel,
              fmt::format("cannot run {}: {}", in_quotes(program), std::strerror(error)));
}

enum class State { running, ended, lost };

/// A started program. It does not outlive this object, also when memory runs out while it is listened to.
class Child {
 public:
  explicit Child(pid_t process) : process_(process) {}
  ~Child() {
    if (state_ != State::running) return;
    kill_all();
    wait(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  State look() {
    if (state_ == State::running) {
      const pid_t found = wait(WNOHANG);
      state_ = found == 0 ? State::running : found == process_ ? State::ended : State::lost;
    }
    return state_;
  }
  int status() const { return status_; }
  /// With its own children.
  void kill_all() const { kill(-process_, SIGKILL); }

 private:
  pid_t wait(int options) {
    pid_t found;
    do {
      found = waitpid(process_, &status_, options);
    } while (found < 0 && errno == EINTR);
    return found;
  }

  pid_t process_;
  int status_ = 0;
  State state_ = State::running;
};

void describe(State state, int status, bool killed, double limit, Finished& finished) {
  if (killed) {
    finished.how = fmt::format("killed after {} s", limit);
  } else if (state == State::lost) {
    // The host program ignores SIGCHLD or waits for all children itself: what was produced has to tell.
    finished.how = "exit code unknown";
    finished.succeeded = true;
  } else if (WIFEXITED(status)) {
    finished.how = fmt::format("exit code {}", WEXITSTATUS(status));
    finished.succeeded = WEXITSTATUS(status) == 0;
  } else {
    finished.how = fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
}

}  // namespace

Result<Finished> run_process(const std::vector<std::string>& command, const std::string& folder,
                             const ProcessLimits& limits) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return cannot_run(command[0], errno);
  const Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  fcntl(ours.number(), F_SETFL, O_NONBLOCK);

  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  pid_t process = -1;
  if (const int error = spawn(command, folder, limits.environment, theirs.number(), process); error != 0)
    return cannot_run(command[0], error);
  Child child(process);
  theirs.close_now();

  // The end of the stream normally tells that the program ended. A child of it that lives on (a compile
  // server) may hold the stream open, so the program itself is looked at too.
  Transcript transcript;
  bool open = true, killed = false;
  while (child.look() == State::running) {
    if (open) {
      pollfd events{ours.number(), POLLIN, 0};
      poll(&events, 1, 20);
      open = drain(ours.number(), transcript);
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (!killed && elapsed() > limits.seconds && child.look() == State::running) {
      killed = true;
      child.kill_all();
    }
  }
  if (open) drain(ours.number(), transcript);
  Finished finished;
  finished.output = transcript.text();
  describe(child.look(), child.status(), killed, limits.seconds, finished);
  return finished;
}

namespace {

/// What cannot be printed is left to the shell, which reads $'...' as C does.
std::string shell_word(const std::string& word) {
  const bool shown = printable(word) == word;
  std::string inside;
  for (const char c : word) {
    if (shown && c == '\'') {
      inside += "'\\'";  // outside of the quotes
    } else if (!shown && (c == '\'' || c == '\\')) {
      inside += '\\';
    }
    inside += c;
  }
  return shown ? "'" + inside + "'" : "$'" + printable(inside) + "'";
}

}  // namespace

std::string shell_text(const std::vector<std::string>& command) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  std::string text;
  for (const std::string& word : command) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
      text += word;
      continue;
    }
    text += shell_word(word);
  }
  return text;
}

}  // namespace regard
