#include "call.h"

#include <algorithm>
#include <utility>

#include "refusal.h"

namespace calls {
namespace {

constexpr std::int64_t alignment = 64;

std::int64_t bytes_of(const std::vector<std::int32_t>& values) {
  return static_cast<std::int64_t>(values.size() * sizeof(std::int32_t));
}
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

Call& Call::set(te_regard_role role, const void* data, std::initializer_list<std::int64_t> strides) {
  te_regard_tensor& tensor = arguments_.tensor[role];
  require(te_regard_problem_tensor(plan_->problem, role, nullptr, &tensor));
  tensor.data = const_cast<void*>(data);  // inputs are only read
  std::copy(strides.begin(), strides.end(), tensor.strides);
  return *this;
}

void Call::set_seed(std::uint64_t seed, std::uint64_t offset) {
  arguments_.seed = seed;
  arguments_.offset = offset;
}

Call& Call::set_own(te_regard_role role, std::vector<std::int32_t> numbers) {
  const auto end = std::remove_if(own_.begin(), own_.end(), [=](const Own& own) { return own.role == role; });
  own_.erase(end, own_.end());
  if (!numbers.empty()) own_.push_back({role, std::move(numbers)});
  return *this;
}

void Call::use_memory(void* memory, std::int64_t bytes) {
  const std::int64_t skipped = aligned(reinterpret_cast<std::intptr_t>(memory)) -
                               static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(memory));
  memory_ = static_cast<std::byte*>(memory) + skipped;
  memory_bytes_ = memory == nullptr ? 0 : bytes - skipped;
}

std::int64_t Call::memory_bytes(std::initializer_list<std::uint64_t> counts) const {
  std::int64_t bytes = te_regard_plan_workspace_bytes(plan_->plan) + alignment;
  for (const std::uint64_t count : counts) bytes += aligned(static_cast<std::int64_t>(4 * count));
  return bytes;
}

std::shared_ptr<void> Call::allocate(std::int64_t bytes) const {
  return calls::allocate(*plan_, bytes);
}

void Call::wait() const {
  require(te_regard_stream_wait(te_regard_plan_target(plan_->plan), stream_));
}

void Call::run() {
  const std::int64_t workspace_bytes = te_regard_plan_workspace_bytes(plan_->plan);
  std::int64_t bytes = workspace_bytes;
  for (const Own& own : own_) bytes += aligned(bytes_of(own.numbers));
  std::byte* memory = bytes <= memory_bytes_ ? memory_ : memory_of(*plan_, stream_, bytes);
  for (const Own& own : own_) {
    require(te_regard_memory_copy(memory, own.numbers.data(), bytes_of(own.numbers)));
    set(own.role, memory);
    memory += aligned(bytes_of(own.numbers));
  }
  void* workspace = workspace_bytes > 0 ? memory : nullptr;  // null if no memory is left after those numbers
  require(te_regard_plan_run(plan_->plan, &arguments_, workspace, workspace_bytes, stream_));
}

const void* adjacent_seed(const void* seed, const void* offset) {
  if (offset != static_cast<const std::uint64_t*>(seed) + 1) {
    refuse(TE_REGARD_REFUSED,
           "the dropout offset does not lie right after the seed; give the address of two 64-bit "
           "numbers, seed and offset, and that of the second one");
  }
  return seed;
}

}  // namespace calls
