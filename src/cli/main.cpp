// The `regard` command: parse, answer, print. Everything it does goes through the public API.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <variant>
#include <vector>

#include "base/text.h"
#include "cli/command_line.h"
#include "cli/held_signals.h"
#include "cli/verbs.h"
#include "regard/regard.hpp"

namespace {

using namespace regard::cli;  // NOLINT: this is its main program

int exit_code_of(regard_status status) {
  switch (status) {
    case REGARD_OK:
      return exit_ok;
    case REGARD_INVALID:
      return exit_bad_input;
    case REGARD_REFUSED:
    case REGARD_NO_KERNEL:
      return exit_refused;
    default:
      return exit_internal;
  }
}

/// A reader that went away (`regard list | head`) has what it needs; any other failure to print is reported.
int print(const Answer& answer) {
  const bool written = std::fwrite(answer.text.data(), 1, answer.text.size(), stdout) == answer.text.size();
  if ((written && std::fflush(stdout) == 0) || errno == EPIPE) return answer.exit_code;
  std::fprintf(stderr, "regard: cannot write to standard output: %s\n", std::strerror(errno));
  return exit_internal;
}

/// Compiler output in the sentence keeps its lines.
int fail(const std::string& sentence, regard_status status) {
  const auto newlines = status == REGARD_NO_KERNEL ? regard::Newlines::kept : regard::Newlines::escaped;
  std::fprintf(stderr, "regard: %s\n", regard::printable(sentence, newlines).c_str());
  return exit_code_of(status);
}

/// For callers that have closed them: otherwise a file would get their numbers, and then what is printed.
/// Reading and printing still fail.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

Answer answer(const std::vector<std::string>& arguments) {
  const auto parsed = parse_command_line(arguments);
  if (const auto* text = std::get_if<std::string>(&parsed)) return {*text};
  return dispatch(std::get<Request>(parsed));
}

}  // namespace

int main(int count, char** values) {
  open_standard_streams();
  // A closed pipe and the file-size limit (ulimit -f) are errors of write(), handled where it is called.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  regard_interrupt_if([] { return static_cast<int>(HeldSignals::arrived()); });
  try {
    return print(answer({values + 1, values + count}));
  } catch (const regard::error& error) {
    return fail(error.what(), error.status());
  } catch (const std::bad_alloc&) {
    return fail("not enough memory", REGARD_NO_MEMORY);
  } catch (const std::exception& error) {
    return fail(std::string("a defect of Regard: ") + error.what(), REGARD_INTERNAL);
  }
}
