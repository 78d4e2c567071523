#include "xla_workspace.h"

#include <string>

#include "xla_call.h"
#include "xla_failure.h"

namespace regard::python::xla {
namespace {

[[noreturn]] void fail_without_memory(const char* where, std::int64_t bytes) {
  throw Failure(REGARD_NO_MEMORY,
                std::string("no memory ") + where + " for a workspace of " + std::to_string(bytes) +
                    " bytes, which the program, traced on another machine, has not reserved");
}

}  // namespace

Workspace::Workspace(const Call& call, const Planned& planned, bool on_gpu)
    : api_(*call.api), context_(call.context), bytes_(regard_plan_workspace_bytes(planned.plan)) {
  if (bytes_ == 0 || use_of_program(call, planned)) return;
  on_gpu ? allocate_on_gpu() : allocate_on_host();
}

Workspace::~Workspace() {
  if (on_gpu_ == nullptr) return;
  FreeMemory freed{sizeof freed, nullptr, context_, bytes_to_align(), on_gpu_};
  if (Error* failed = api_.free_memory(&freed)) {
    DestroyError destroyed{sizeof destroyed, nullptr, failed};
    api_.destroy_error(&destroyed);
  }
}

bool Workspace::use_of_program(const Call& call, const Planned& planned) {
  const std::int64_t index = std::ssize(planned.outputs);
  if (call.results.count <= index) return false;
  const Buffer& buffer = buffer_of(call.results, index);
  std::size_t space = buffer.rank == 1 ? static_cast<std::size_t>(buffer.dims[0]) : 0;
  void* data = buffer.data;
  if (data == nullptr ||
      std::align(workspace_alignment, static_cast<std::size_t>(bytes_), data, space) == nullptr)
    return false;
  data_ = data;
  return true;
}

void Workspace::allocate_on_host() {
  constexpr std::int64_t unit = workspace_alignment;
  on_host_.reset(std::aligned_alloc(unit, static_cast<std::size_t>((bytes_ + unit - 1) / unit * unit)));
  if (!on_host_) fail_without_memory("on the CPU", bytes_);
  data_ = on_host_.get();
}

void Workspace::allocate_on_gpu() {
  AllocateMemory asked{sizeof asked, nullptr, context_, bytes_to_align(), xla_alignment, nullptr};
  if (Error* failed = api_.allocate_memory(&asked)) {
    DestroyError destroyed{sizeof destroyed, nullptr, failed};
    api_.destroy_error(&destroyed);
    fail_without_memory("on the GPU", bytes_);
  }
  data_ = on_gpu_ = asked.data;
  std::size_t space = bytes_to_align();
  std::align(workspace_alignment, static_cast<std::size_t>(bytes_), data_, space);
}

}  // namespace regard::python::xla
