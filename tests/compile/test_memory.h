// A memory of compiler identities that tests can inspect.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "compile/compiler_memory.h"

namespace regard {

struct TestMemory final : CompilerMemory {
  std::map<std::string, std::string> known;
  std::optional<std::string> recall(const std::string& question) override {
    const auto found = known.find(question);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }
  void remember(const std::string& question, const std::string& identity) override {
    known[question] = identity;
  }
};

}  // namespace regard
