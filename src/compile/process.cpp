#include "compile/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/descriptor.h"
#include "base/interruption.h"
#include "base/result.h"
#include "base/text.h"
#include "compile/environment.h"
#include "compile/spawn.h"

namespace regard {
namespace {

using Clock = std::chrono::steady_clock;

/// A program's output: all of it, or its beginning and its end.
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

// Reads what is available, but no more than a pipe holds, as its writer may keep up forever. False at the end
// of the stream.
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

/// Some errors only lack processes, files or memory: the next try may succeed.
tl::unexpected<Error> cannot_run(const std::string& program, int error) {
  return fail(kind_of(error, ErrorKind::no_kernel),
              fmt::format("cannot run {}: {}", in_quotes(program), std::strerror(error)));
}

enum class State { running, ended, lost };

/// A started program. It does not outlive this object, even when memory runs out while its output is read.
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
  /// Including its own children.
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
    // The host program ignores SIGCHLD or waits for all children itself: only the output file shows success.
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
  const Lifeline lifeline;
  if (!ours || !theirs || !lifeline) return cannot_run(command[0], errno);
  fcntl(ours.number(), F_SETFL, O_NONBLOCK);

  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  pid_t process = -1;
  if (const int error =
          spawn({command, child_environment(limits.environment), folder, theirs.number(), lifeline}, process);
      error != 0)
    return cannot_run(command[0], error);
  Child child(process);
  theirs = Descriptor();

  // The end of the stream normally means that the program ended. A child of it that lives on (a compile
  // server) can hold the stream open, so the program itself is checked as well.
  Transcript transcript;
  bool open = true, killed = false;
  while (child.look() == State::running) {
    if (interrupted()) return interruption();
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

/// Unprintable characters are escaped for the shell, which reads $'...' as C does.
std::string shell_word(const std::string& word) {
  const bool shown = printable(word) == word;
  std::string inside;
  for (const char c : word) {
    if (shown && c == '\'') {
      inside += "'\\'";  // outside the quotes
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
