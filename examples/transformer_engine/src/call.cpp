#include "call.h"

#include <algorithm>
#include <utility>

#include "refusal.h"

namespace ck_fused_attn {
namespace {

std::int64_t bytes_of(const std::vector<std::int32_t>& values) {
  return static_cast<std::int64_t>(values.size() * sizeof(std::int32_t));
}
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

Call& Call::set(te_regard_role role, const void* data, std::initializer_list<std::uint64_t> strides) {
  te_regard_tensor& tensor = arguments_.tensor[role];
  require(te_regard_problem_tensor(plan_->problem, role, nullptr, &tensor));
  tensor.data = const_cast<void*>(data);  // inputs are only read
  std::copy(strides.begin(), strides.end(), tensor.strides);
  return *this;
}

Call& Call::set_lengths(te_regard_role role, std::vector<std::int32_t> lengths) {
  lengths_.push_back({role, std::move(lengths)});
  return *this;
}

void Call::run() {
  const std::int64_t workspace_bytes = te_regard_plan_workspace_bytes(plan_->plan);
  std::int64_t bytes = workspace_bytes;
  for (const Lengths& lengths : lengths_) bytes += aligned(bytes_of(lengths.values));
  std::byte* memory = memory_of(*plan_, stream_, bytes);
  for (const Lengths& lengths : lengths_) {
    require(te_regard_memory_copy(memory, lengths.values.data(), bytes_of(lengths.values)));
    set(lengths.role, memory);
    memory += aligned(bytes_of(lengths.values));
  }
  void* workspace = workspace_bytes > 0 ? memory : nullptr;  // behind the lengths there may be nothing
  require(te_regard_plan_run(plan_->plan, &arguments_, workspace, workspace_bytes, stream_));
}

}  // namespace ck_fused_attn
