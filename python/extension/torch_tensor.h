// PyTorch's tensors read through the functions that their class gives away in C (DLPack 1.3), or, in older
// versions, through their own methods: a hundredth, or a tenth, of what their DLPack export costs.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <optional>

namespace regard::python {

namespace nb = nanobind;

/// Where a tensor comes from: a caller; one who records the call for its gradients, so that requiring one is
/// no flaw; or this call, which made it without a flaw.
enum class Source { caller, recorder, call };

/// What a tensor has that a call would lose without a word, or has not that a call needs.
enum class Flaw { none, requires_gradient, tangent, no_memory };

/// Memory of an array of up to 4 dimensions; strides in elements.
struct ArrayView {
  void* data = nullptr;
  nb::dlpack::dtype type{};
  int device = 0;  // as DLPack counts them
  int device_number = 0;
  Flaw flaw = Flaw::none;
  int rank = 0;
  std::array<std::int64_t, 4> shape{}, strides{};
};

/// Row-major without gaps.
bool is_contiguous(const ArrayView&);
bool is_empty(const ArrayView&);
/// An address that nothing has: null, or null and an offset.
bool is_nowhere(const void* data);

/// Nothing for whatever is no plain tensor (a subclass, sparse, of an unusual type or device, with a negative
/// or conjugate bit): DLPack knows what to say about it.
std::optional<ArrayView> view_of_torch(nb::handle array, Source source = Source::caller);

/// What DLPack does not say of a tensor, plain or of a subclass, whose view has this shape and these strides.
Flaw flaw_of_torch(nb::handle array, const ArrayView& view);
/// Whether the memory of a tensor of any rank covers its elements: PyTorch reads them without a look at that.
bool has_memory_torch(nb::handle tensor);
/// Whether elements are read negated or conjugated, which DLPack does not say either.
bool is_lazy_torch(nb::handle array);
/// A tensor of the elements as they are read.
nb::object resolved_torch(nb::handle lazy);

/// Whether this is a tensor of PyTorch, plain or of a subclass.
bool is_torch(nb::handle array);
/// Whether a tensor's class says what functions of PyTorch do with it: only that class knows what its memory
/// holds.
bool has_own_functions_torch(nb::handle tensor);

/// Whether PyTorch records calls on tensors into a graph now (torch.jit.trace, make_fx, torch.export), which
/// knows no call of ours. Under torch.compile it does not: there a call is left out of the graphs.
bool torch_is_tracing();
/// Whether this stands for a tensor that is not there yet, as torch.fx.symbolic_trace passes.
bool is_torch_proxy(nb::handle value);

/// PyTorch's current stream of that GPU, where its version says so in C.
std::optional<void*> torch_stream(int device_number);

/// New memory of PyTorch on the device of `like`, of that shape (a tuple) and dtype (None: that of `like`).
nb::object torch_memory(nb::handle like, nb::handle shape, nb::handle dtype, bool zeros);
/// A tensor of that shape whose elements are all the same one, or that has none.
nb::object torch_expanded(nb::handle like, nb::handle shape, nb::handle dtype);
/// New contiguous memory like an expanded tensor; from shape and dtype it takes more time.
nb::object torch_memory_like(nb::handle expanded, bool zeros);

/// Bytes on the device of `like`, and where they are.
nb::object torch_bytes(nb::handle like, std::int64_t bytes, void*& address);

/// Whether this is a plain tensor in a GPU's memory; nothing where view_of_torch has nothing.
std::optional<bool> torch_on_gpu(nb::handle array);

}  // namespace regard::python
