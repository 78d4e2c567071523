// The tuning records that this process follows: of REGARD_TUNING, or of the file that replaced it, and after
// them those in bundles. Nothing is measured here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/target.h"
#include "plan/tuning.h"

namespace regard {

/// Replaces the records for plans that are made from now on; an empty path: none.
Status use_tuning(const std::string& path);

/// What the records say about a problem.
struct Recorded {
  std::string candidate;           ///< empty: nothing
  std::string record;              ///< for people: which one, and what was measured
  std::vector<std::string> notes;  ///< of records for problems like this one that do not count here, and why
};

/// The nearest record that was measured on this device with as many threads, and whose kernels are the ones
/// that this library has. An error where REGARD_TUNING cannot be read.
Result<Recorded> recorded(const Problem&, const Target&, int threads);

/// The device that a target runs on here: the CPU's model, or the name of the current GPU.
Result<std::string> device_of(const Target&);

/// A measured candidate.
struct MeasuredCandidate {
  std::string name;
  double seconds;
};
/// The record of measurements on this machine; the first candidate is the one to use.
Result<TuningRecord> make_record(const Problem&, const Target&, int threads,
                                 std::span<const MeasuredCandidate>);

}  // namespace regard
