#include "workspace.h"

#include <string>

#include "cuda_array.h"
#include "dlpack.h"
#include "foreign.h"
#include "status.h"
#include "torch_tensor.h"

namespace regard::python {
namespace {

constexpr std::int64_t kept_bytes = std::int64_t{256} << 20;

Memory allocate(std::int64_t bytes) {
  Memory memory(std::aligned_alloc(64, static_cast<std::size_t>((bytes + 63) / 64 * 64)));
  if (!memory) raise(REGARD_NO_MEMORY, "no memory for a workspace of " + std::to_string(bytes) + " bytes");
  return memory;
}

/// Its memory as a capsule; none if it does not export any.
nb::object lent(nb::handle array, bool gpu) {
  try {
    return gpu ? exportable(array) : capsule_of(array, true);
  } catch (nb::python_error& error) {
    pass_on(error);
    return nb::none();
  }
}

}  // namespace

Workspace::Workspace(nb::handle given, const regard_plan* plan, bool gpu, nb::handle q)
    : bytes_(regard_plan_workspace_bytes(plan)) {
  if (!given.is_none()) {
    use(given, gpu);
    if (is_nowhere(data_) && bytes_ > 0) refuse_memory();
  } else if (bytes_ > 0 && gpu) {
    use_own_gpu(regard_plan_target(plan), q);
  } else if (bytes_ > 0) {
    use_own_host();
  }
}

void Workspace::refuse_memory() {
  raise(REGARD_INVALID,
        "workspace has no memory: its storage was freed or cut, or it is an array without data; pass one of "
        "at least " +
            std::to_string(bytes_) + " bytes, or none");
}

void Workspace::use(nb::handle array, bool gpu) {
  if (const auto view = view_of_torch(array);
      view && view->rank == 1 && view->strides[0] == 1 && (view->device == nb::device::cpu::value) != gpu) {
    if (view->flaw == Flaw::no_memory) refuse_memory();
    data_ = view->data;
    bytes_ = view->shape[0] * (view->type.bits / 8);
    return;
  }
  if (gpu && is_cuda_array(array)) {
    const CudaArray found = cuda_array(array, "workspace");
    if (is_contiguous(found.view) && !found.read_only) {
      data_ = found.view.data;
      bytes_ = found.view.type.bits / 8;
      for (int axis = 0; axis < found.view.rank; ++axis)
        bytes_ *= found.view.shape[static_cast<std::size_t>(axis)];
      return;
    }
  }
  const bool fits = nb::try_cast(lent(array, gpu), theirs_, false);
  if (!fits || (theirs_.device_type() == nb::device::cpu::value) == gpu)
    raise(REGARD_INVALID, std::string("workspace must be a contiguous, writable array on the ") +
                              (gpu ? "GPU" : "CPU") + " of at least " + std::to_string(bytes_) + " bytes");
  data_ = theirs_.data();
  bytes_ = static_cast<std::int64_t>(theirs_.nbytes());
  ArrayView bytes;
  bytes.data = data_, bytes.type = {static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt), 8, 1};
  bytes.rank = 1, bytes.shape[0] = bytes_, bytes.strides[0] = 1;
  if (is_torch(array) && flaw_of_torch(array, bytes) == Flaw::no_memory) refuse_memory();
}

// A thread keeps one workspace of up to 256 MiB, so that repeated calls touch warm pages; larger ones live
// for one call. Nested calls on a thread do not happen: the extension calls nothing back while it runs.
void Workspace::use_own_host() {
  thread_local Memory kept;
  thread_local std::int64_t size = 0;
  if (bytes_ > kept_bytes) {
    once_ = allocate(bytes_);
    data_ = once_.get();
    return;
  }
  if (bytes_ > size) {
    kept.reset();
    size = 0;
    kept = allocate(bytes_);
    size = bytes_;
  }
  data_ = kept.get();
}

void Workspace::used_in(void* stream, nb::handle q) const {
  if (!torch_.is_valid()) return;
  const nb::object cuda = nb::module_::import_("torch").attr("cuda");
  torch_.attr("record_stream")(
      cuda.attr("ExternalStream")(reinterpret_cast<std::uintptr_t>(stream), q.attr("device")));
}

// PyTorch's allocator assumes that its current stream uses the memory (used_in tells it otherwise); memory
// from elsewhere is freed when the work is done.
void Workspace::use_own_gpu(const char* target, nb::handle q) {
  if (!is_torch(q)) {
    check(regard_memory_allocate(target, bytes_, &on_gpu_));
    data_ = on_gpu_;
    return;
  }
  torch_ = torch_bytes(q, bytes_, data_);
}

}  // namespace regard::python
