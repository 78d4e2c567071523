// A foreign call as XLA passes it: the request, and its buffers as the tensors of a run.
#pragma once

#include <cstdint>

#include "regard/regard.h"
#include "xla_abi.h"
#include "xla_plans.h"

namespace regard::python::xla {

/// The strings point into the call.
Asked asked_by(const Call& call);

/// The buffers that are tensors of the problem. XLA's arrays have no gaps, and their last axis is innermost.
regard_arguments arguments_of(const Call& call, const Planned& planned);

/// Throws a Failure if the buffer at that index is not an array.
const Buffer& buffer_of(const Buffers&, std::int64_t index);

}  // namespace regard::python::xla
