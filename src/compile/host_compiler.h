// The host C++ compiler as a toolchain: shared objects for CPU targets.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compiler_identity.h"
#include "compile/toolchain.h"

namespace regard {

/// The whole command: compiler, options (Rendered::options), those for that compiler (quick_options.h,
/// machine_options.h), then what makes a shared object of one source.
std::vector<std::string> host_compile_command(const std::string& compiler,
                                              const std::vector<std::string>& options,
                                              std::span<const std::string_view> of_compiler,
                                              const std::string& source, const std::string& output);

/// The names to search for, in order: `setting` (REGARD_CXX), or else the usual ones.
std::vector<std::string> host_compiler_words(const std::string& setting);

/// `setting` (REGARD_CXX: a program, without options) or else the first of c++, g++, clang++ on `path` that
/// runs. A compile that takes longer than `limit_seconds` is killed. `memory` can be null.
Result<std::unique_ptr<Toolchain>> find_host_compiler(const std::string& setting, const std::string& path,
                                                      double limit_seconds = compile_limit_seconds,
                                                      CompilerMemory* memory = nullptr);

}  // namespace regard
