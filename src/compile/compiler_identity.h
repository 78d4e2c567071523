// Which compiler a program is: what it says of itself, now or to an earlier process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compile/compiler_memory.h"

namespace regard {

/// What identifies a compiler in the text that `-v` prints; no paths, nothing of how it was called. Empty
/// when that is not a compiler's text.
std::string compiler_identity(std::string_view verbose_text);

/// The identity of a program, an absolute path, with files of settings that it reads and variables that
/// choose its parts; `memory` may be null. An error says what `-v` did instead.
Result<CompilerAnswer> identify_compiler(const std::string& program, CompilerMemory* memory);

}  // namespace regard
