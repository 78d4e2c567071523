// The problems of a manifest that this machine can measure.
#pragma once

#include <string>
#include <vector>

namespace regard::cli {

struct ManifestProblem {
  std::string problem, target;
};

/// The problem texts, records and tuning records of a manifest, each for the requested targets of the
/// manifest; if none is requested, for those that run here. What cannot be measured is reported on stderr:
/// other targets, and tables of signatures, which have no lengths. Throws where nothing is left.
std::vector<ManifestProblem> problems_of_manifest(const std::string& manifest,
                                                  const std::vector<std::string>& requested_targets);

}  // namespace regard::cli
