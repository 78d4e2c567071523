// What compilers reported about themselves, kept between processes as long as their files stay the same.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace regard {

/// `question` identifies a compiler, the state of its file, and what it was asked.
class CompilerMemory {
 public:
  virtual ~CompilerMemory() = default;
  virtual std::optional<std::string> recall(const std::string& question) = 0;
  virtual void remember(const std::string& question, const std::string& identity) = 0;
};

struct CompilerAnswer {
  std::string identity;
  bool lasting = true;  ///< whether it stays valid as long as the file does
};

/// What the compiler in the binary `file` answers, now or to an earlier process; `how` distinguishes ways to
/// ask. `memory` can be null.
Result<CompilerAnswer> recall_or_ask(CompilerMemory* memory, const std::string& file, const std::string& how,
                                     const std::function<Result<CompilerAnswer>()>& ask);

/// Changes when the file is replaced or written to; empty when there is none.
std::string state_of_program(const std::string& path);

}  // namespace regard
