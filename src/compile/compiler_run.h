// A compiler that is a program: found, and run on one source in its own folder.
#pragma once

#include <string>
#include <vector>

#include "compile/toolchain.h"

namespace regard {

/// The absolute path of a program, or empty. A word with a slash is a path; others are searched in `path`.
std::string find_program(const std::string& word, const std::string& path);

struct CompilerRun {
  std::vector<std::string> command;
  /// Names relative to the folder keep its random name out of the binary: same source, same bytes.
  std::string source, output;
  std::string beside = {};  ///< another file that the compiler writes, if any
  double limit_seconds = compile_limit_seconds;
};

struct CompilerOutput {
  std::vector<std::byte> binary;
  std::string log, beside;
};

/// On failure the message contains the command, the exit code, the log and where the source was kept.
Result<CompilerOutput> run_compiler(const CompileRequest&, const CompilerRun&);

}  // namespace regard
