// Runs a program and waits for it: no shell, nothing inherited except what is listed here, and never forever.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace regard {

/// This much of the beginning and of the end of a program's output is kept.
inline constexpr std::size_t kept_output_bytes = 1 << 20;

struct Finished {
  bool succeeded = false;
  std::string how;     ///< "exit code 1", "signal 11 (Segmentation fault)", "killed after 300 s"
  std::string output;  ///< both streams, as they came; if too long, the beginning and the end

  /// "ended with exit code 1", "was killed after 300 s".
  std::string ended() const { return (how.starts_with("killed") ? "was " : "ended with ") + how; }
};

struct ProcessLimits {
  double seconds = 300;                       ///< after which the program and its children are killed
  std::vector<std::string> environment = {};  ///< "NAME=value", overriding child_environment()
};

/// `command[0]` is an absolute path. The working folder is `folder`, standard input is empty, and all signals
/// are as at the start of a program. The program ends with this process, however that ends, and so do its
/// children. An error means that it could not be started (`no_memory`: for lack of processes, files or
/// memory), or that it was killed because the call should end (`interrupted`).
Result<Finished> run_process(const std::vector<std::string>& command, const std::string& folder,
                             const ProcessLimits& limits = {});

/// As a user would type it: words with spaces and the like in quotes.
std::string shell_text(const std::vector<std::string>& command);

}  // namespace regard
