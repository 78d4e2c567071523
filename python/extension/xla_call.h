// A foreign call as XLA hands it over: what it asks for, and its buffers as the tensors of a run.
#pragma once

#include <cstdint>

#include "regard/regard.h"
#include "xla_abi.h"
#include "xla_plans.h"

namespace regard::python::xla {

/// The strings lie in the call.
Asked asked_by(const Call& call);

/// The buffers that are tensors of the problem. XLA's arrays lie without gaps, the last axis innermost.
regard_arguments arguments_of(const Call& call, const Planned& planned);

/// The result behind the outputs. A program asks for `workspace_alignment` more bytes than the plan needs, as
/// XLA promises less alignment.
constexpr std::int64_t workspace_alignment = 64;
struct Workspace {
  void* data = nullptr;
  std::int64_t bytes = 0;
};
Workspace workspace_of(const Call& call, const Planned& planned);

}  // namespace regard::python::xla
