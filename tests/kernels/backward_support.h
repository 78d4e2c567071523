// Tables of backward problems.
#pragma once

#include <string>
#include <vector>

#include "kernels/support.h"

namespace regard::test::backward {

using Texts = std::vector<std::string>;

struct Entry {
  std::string text;
  CaseOptions options = {};
};

/// Every head combined with every tail, as "bwd head tail".
std::vector<Entry> product(const Texts& heads, const Texts& tails, const CaseOptions& options = {});

/// Checks every entry with the backward kernel of every given target; two at a time, since most have to be
/// compiled.
void expect_right(const std::vector<Entry>& entries, const Texts& targets = {runnable_targets().front()});

/// On a CPU: with one thread and with each of these other numbers; on a GPU, which has no threads to choose:
/// in two deterministic runs.
void expect_same_bits(const std::string& text, const std::string& target, const std::vector<int>& threads);

}  // namespace regard::test::backward
