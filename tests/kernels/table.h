// Tables of problems run on targets through the C ABI and judged by the oracle.
#pragma once

#include <string>
#include <vector>

#include "support/case.h"

namespace regard::test {

/// Names of the CPU targets that this machine can run, lowest first.
std::vector<std::string> runnable_targets();

struct Entry {
  std::string text;
  CaseOptions options = {};
  std::string target = {};  ///< empty: the best of this machine
  std::string family = {};  ///< empty: the plan's choice
};

/// Runs the entry; sentences about what went wrong, empty when all is right.
std::string mistakes_of(const Entry&);

/// Every entry on every given target; compiles and runs on two threads. Each mistake is a failure that prints
/// the problem text.
void expect_right(const std::vector<Entry>& entries, const std::vector<std::string>& targets);
/// On the best target of this machine.
void expect_right(const std::vector<Entry>& entries);

}  // namespace regard::test
