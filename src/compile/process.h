// Runs a program and waits for it: no shell, nothing inherited but what is said here, never for ever.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace regard {

/// Of what a program says, this much of its beginning and of its end is kept.
inline constexpr std::size_t kept_output_bytes = 1 << 20;

struct Finished {
  bool succeeded = false;
  std::string how;     ///< "exit code 1", "signal 11 (Segmentation fault)", "killed after 300 s"
  std::string output;  ///< both streams, as they came; of a flood its beginning and its end
};

struct ProcessLimits {
  double seconds = 300;                       ///< then the program and its children are killed
  std::vector<std::string> environment = {};  ///< "NAME=value" in place of what child_environment() says
};

/// `command[0]` is an absolute path. The working folder is `folder`, standard input is empty, and all signals
/// are as at the start of a program. It ends with this process, however that ends, and so do its children. An
/// error means that it could not be started (`no_memory`: it could with more processes, files or memory), or
/// that it was killed as the call is to end (`interrupted`).
Result<Finished> run_process(const std::vector<std::string>& command, const std::string& folder,
                             const ProcessLimits& limits = {});

/// As one would type it: words with spaces and the like in quotes.
std::string shell_text(const std::vector<std::string>& command);

}  // namespace regard
