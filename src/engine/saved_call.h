// A call as a folder of files (docs/saved-calls.md): tensors before and after it, and what computed them. It
// holds no path and nothing from the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/elements.h"
#include "engine/memory.h"
#include "engine/prepared.h"
#include "regard/regard.h"

namespace regard {

/// A kernel that computed the call: another one, even under the same key, can give other bits.
struct UsedKernel {
  std::string key;
  std::string digest;  ///< of the text that is compiled
  std::int64_t grid = 0;
  friend bool operator==(const UsedKernel&, const UsedKernel&) = default;
};
/// Empty until the plan's kernels are known.
Result<std::vector<UsedKernel>> used_kernels(const PreparedPlan&);

/// The option `family` that leads to the same kernels again: names of the recipe and numbers of its tile.
std::string family_of(const Plan&);

/// An element of an output.
struct OutputElement {
  regard_role role;
  ElementIndex at;
  int rank;
};

/// What is written of a call.
struct CallToSave {
  const PreparedPlan& plan;
  const regard_arguments& given;            ///< for their strides
  const regard_arguments& before;           ///< in host memory: what the call reads
  const regard_arguments* after;            ///< in host memory: what it has written; null where it failed
  std::string_view why;                     ///< the condition: "nan", "first", ...
  std::optional<OutputElement> found = {};  ///< the element that fulfilled it
  std::string_view error = {};              ///< the kind of the error with which it failed
};

/// Bytes of the tensors in its files.
std::int64_t bytes_to_save(const TensorSpecs&, const regard_arguments&);
/// Writes the files of a call into an existing folder, the description last.
Status write_saved_call(const std::string& folder, const CallToSave&);

/// A call that was read back. Tensors are in host memory, with the strides that they had.
struct SavedCall {
  Problem problem;
  std::string why, error;
  std::string version, target, family, functions, machine;
  int threads = 0;
  std::vector<UsedKernel> kernels;
  regard_arguments before = REGARD_ARGUMENTS_INIT;
  regard_arguments after = REGARD_ARGUMENTS_INIT;  ///< those that the call writes; row-major
  std::vector<AlignedMemory> memory;
};
Result<SavedCall> read_saved_call(const std::string& folder);

}  // namespace regard
