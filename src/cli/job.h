// One problem made ready to run: sequences, tensors, plan, kernels and workspace. Shared by `run` and
// `bench`.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/on_target.h"
#include "cli/request.h"
#include "cli/sequences.h"
#include "cli/tensors.h"
#include "regard/regard.hpp"

namespace regard::cli {

/// The problem of a text that a user typed, where lengths must not be forgotten.
Problem parse_problem(const std::string& text);
Problem parse_problem(const std::vector<std::string>& words);

/// The tensors that the command line's files contain, and the names of those of --in that the problem does
/// not read.
struct Files {
  std::map<regard_role, LoadedArray> roles;
  std::vector<std::string> left_out;
};

/// Some of these names, for people, likely typing errors first: a tensor that is left out by mistake is drawn
/// at random.
std::string listed_tensors(const std::vector<std::string>& names);

/// Where forward runs, whose O and LSE a backward problem reads: on the CPU, as a check of a GPU's backward
/// kernels must not depend on its forward kernels; or on the problem's target, as that is fast.
enum class ForwardOn : std::uint8_t { cpu, same_target };

class Job {
 public:
  /// Plans first, so that a refusal comes before any work.
  Job(const Problem&, const Request&, const regard::Options& where, ForwardOn = ForwardOn::cpu);

  /// Milliseconds per call, the mean over `calls`.
  double run(int calls = 1) const;
  /// Afterwards the outputs of the last call are in `tensors`.
  void fetch() const { there.fetch(); }

  /// Inputs, outputs and workspace; the library allocates nothing else during a run.
  std::int64_t bytes() const { return tensors.bytes() + workspace.bytes(); }
  double flops() const { return flops_of(problem, sequences); }

  const Files files;
  const Sequences sequences;
  const Problem problem;  ///< with the token counts of the sequences
  Plan plan;              ///< prepared
  const double prepare_ms;
  const Tensors tensors;

 private:
  const OnTarget there;
  const Workspace workspace;
};

}  // namespace regard::cli
