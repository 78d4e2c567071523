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

}  // namespace regard
