// PyTorch tensors read through the C functions that their class exposes (DLPack 1.3) or, in older versions,
// through their own methods: a hundredth, or a tenth, of the cost of their DLPack export.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <optional>

namespace regard::python {

namespace nb = nanobind;

/// Where a tensor comes from: a caller; a caller that records the call for its gradients, so that requiring
/// one is no flaw; or this call, which made it without a flaw.
enum class Source { caller, recorder, call };

/// A property of a tensor that a call would silently lose, or a missing one that a call needs.
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
/// An address that no object can have: null, or null plus an offset.
bool is_nowhere(const void* data);

/// Nothing for anything but a plain tensor (for a subclass, sparse tensors, unusual types or devices, a
/// negative or conjugate bit): DLPack knows how to describe those.
std::optional<ArrayView> view_of_torch(nb::handle array, Source source = Source::caller);

/// Flaws that DLPack does not report, of a plain tensor or a subclass whose view has this shape and strides.
Flaw flaw_of_torch(nb::handle array, const ArrayView& view);
/// Whether the memory of a tensor of any rank covers its elements: PyTorch reads them without checking that.
bool has_memory_torch(nb::handle tensor);
/// Whether elements are read negated or conjugated, which DLPack does not report either.
bool is_lazy_torch(nb::handle array);
/// A tensor with the elements as they are read.
nb::object resolved_torch(nb::handle lazy);

/// Whether this is a PyTorch tensor, plain or of a subclass.
bool is_torch(nb::handle array);
/// Whether a tensor's class overrides functions of PyTorch: only that class knows what its memory holds.
bool has_own_functions_torch(nb::handle tensor);

/// Whether PyTorch is recording calls on tensors into a graph (torch.jit.trace, make_fx, torch.export), in
/// which our calls would be missing. Under torch.compile it is not: there a call is left out of the graphs.
bool torch_is_tracing();
/// Whether this is a placeholder for a tensor, as torch.fx.symbolic_trace passes.
bool is_torch_proxy(nb::handle value);

/// PyTorch's current stream of that GPU, if its version exposes it in C.
std::optional<void*> torch_stream(int device_number);

/// New PyTorch memory on the device of `like`, with this shape (a tuple) and dtype (None: that of `like`).
nb::object torch_memory(nb::handle like, nb::handle shape, nb::handle dtype, bool zeros);
/// A tensor of this shape whose elements are all the same one, or that has none.
nb::object torch_expanded(nb::handle like, nb::handle shape, nb::handle dtype);
/// New contiguous memory like an expanded tensor; making it from shape and dtype takes longer.
nb::object torch_memory_like(nb::handle expanded, bool zeros);

/// Bytes on the device of `like`, and their address.
nb::object torch_bytes(nb::handle like, std::int64_t bytes, void*& address);

/// DLPack's type of the device of a plain tensor on a CPU or GPU; nothing if view_of_torch returns nothing.
std::optional<int> torch_device(nb::handle array);

}  // namespace regard::python
