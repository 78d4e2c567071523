// The candidates of a problem, prepared for being measured alternately on the same tensors.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/job.h"
#include "cli/request.h"
#include "regard/regard.hpp"

namespace regard::cli {

class Candidates {
 public:
  /// Plans and prepares all of them, the cost model's choice first. One without a kernel is left out.
  /// Candidates for which the cost model expects more than ten times its lowest estimate are not measured.
  Candidates(const Problem&, const Request&, const regard::Options& where);
  /// Only the candidates with these names.
  Candidates(const Problem&, const Request&, const regard::Options& where,
             const std::vector<std::string>& names);

  std::size_t size() const { return all_.size(); }
  const std::string& name(std::size_t i) const { return all_[i].name; }
  /// Milliseconds of a call, the mean over as many as make a sample. Calls go through copies of the tensors,
  /// so that none finds in a cache what the one before has read.
  double measure(std::size_t i);

 private:
  struct One {
    std::string name;
    std::unique_ptr<Plan> plan;
    std::unique_ptr<Workspace> workspace;
    int calls = 1;
  };
  const Job job_;
  std::vector<One> all_;
  std::vector<std::unique_ptr<OnTarget>> copies_;
  std::size_t next_copy_ = 0;
};

/// What the library says about a problem: `regard explain --json`.
nlohmann::json explained(const Problem&, const regard::Options& where);
/// The names of the candidates to measure, also those with other numbers of parts and threads: first the cost
/// model's choice, then the others by their estimates.
std::vector<std::string> worth_measuring(const nlohmann::json& explanation);

}  // namespace regard::cli
