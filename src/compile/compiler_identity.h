// Which compiler a program is: what it reports about itself, now or to an earlier process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compile/compiler_memory.h"

namespace regard {

/// What identifies a compiler in the text that `-v` prints; no paths, and nothing about how it was called.
/// Empty when the text is not a compiler's.
std::string compiler_identity(std::string_view verbose_text);

/// The identity of a program, given by absolute path, including the settings files that it reads and the
/// variables that choose its parts; `memory` can be null. An error says what `-v` did instead.
Result<CompilerAnswer> identify_compiler(const std::string& program, CompilerMemory* memory);

/// A compiler, what it was when it was asked, and what tells that it was replaced since.
struct IdentifiedCompiler {
  std::string path;
  std::string state;  ///< of its file, before it was asked
  CompilerAnswer answer;
  std::string environment;  ///< environment_identity()

  /// Whether it is still the same, as far as its file shows; if that is not conclusive and `ask` is true, by
  /// asking it again. An error is the end of a sentence, and `no_memory` where it could not be asked.
  Status unchanged(bool ask) const;
};

/// The same as identify_compiler, for a program that will be used.
Result<IdentifiedCompiler> identified(const std::string& program, CompilerMemory* memory);

}  // namespace regard
