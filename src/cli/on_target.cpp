#include "cli/on_target.h"

namespace regard::cli {
namespace {

/// From the first element to past the last; a tensor of the command has no gap at its end.
std::int64_t bytes_of(const Tensor& tensor) {
  std::int64_t last = 0;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] == 0) return 1;  // zero bytes of memory would count as absent
    last += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  return (last + 1) * info(element_of(tensor.dtype)).bytes;
}

}  // namespace

OnTarget::OnTarget(const Tensors& tensors, const Plan& plan, bool copied)
    : target_(plan.target()), arguments_(tensors.arguments()) {
  if (!plan.on_gpu() && !copied) return;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    Tensor tensor = arguments_[role];
    if (tensor.data == nullptr) continue;
    copies_.push_back({tensor.data, Memory(bytes_of(tensor), target_)});
    const Memory& memory = copies_.back().memory;
    copy(memory.data(), tensor.data, memory.bytes());
    tensor.data = memory.data();
    arguments_.set(role, tensor);
  }
}

void OnTarget::wait() const {
  detail::require(regard_stream_wait(target_.c_str(), nullptr));
}

void OnTarget::fetch() const {
  for (const Copy& one : copies_) copy(one.home, one.memory.data(), one.memory.bytes());
}

}  // namespace regard::cli
