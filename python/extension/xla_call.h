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

/// Throws a Failure where the buffer of that place is no array.
const Buffer& buffer_of(const Buffers&, std::int64_t place);

}  // namespace regard::python::xla
