// The stream of a call on a GPU, and pending work in other streams.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "binding.h"

namespace regard::python {

/// A number, an object that has one (torch.cuda.Stream, or the protocol __cuda_stream__), or None: PyTorch's
/// current stream for its tensors, otherwise CUDA's default stream.
void* stream_of(nb::handle stream, nb::handle q);

/// Returns when the work pending in `stream` on the GPU of `memory` is done.
void wait_for(const void* memory, void* stream);
/// The same for these arrays and all streams but `queue`; false: nothing was waited for.
bool wait_for_others(const std::vector<Binding::Busy>& arrays, void* queue);

}  // namespace regard::python
