// The stream of a call on a GPU, and work that is under way in other ones.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "binding.h"

namespace regard::python {

/// A number, an object that has one (torch.cuda.Stream, or the protocol __cuda_stream__), or None: PyTorch's
/// current stream for its tensors, else CUDA's default one.
void* stream_of(nb::handle stream, nb::handle q);

/// Returns when the work in `stream` is done that is under way on the GPU of `memory`.
void wait_for(const void* memory, void* stream);
/// The same for these arrays and all streams but `queue`; false: nothing was waited for.
bool wait_for_others(const std::vector<Binding::Busy>& arrays, void* queue);

}  // namespace regard::python
