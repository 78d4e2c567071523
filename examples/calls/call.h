// One call: a plan and its tensors, which are set one after the other.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "plans.h"

namespace calls {

class Call {
 public:
  Call(const std::string& text, void* stream) : plan_(plan_for(text)), stream_(stream) {}

  /// Sets a tensor, in the shape that the problem has for it. Strides, for all dimensions but the last, are
  /// given if it may not be contiguous.
  Call& set(te_regard_role role, const void* data, std::initializer_list<std::int64_t> strides = {});

  /// Sets seed and offset of dropout as numbers.
  void set_seed(std::uint64_t seed, std::uint64_t offset);

  /// Sets 32-bit numbers from the host, which are copied to where the plan runs. They replace those that the
  /// role had; an empty list removes them.
  Call& set_own(te_regard_role role, std::vector<std::int32_t> numbers);

  /// Memory of the caller where the plan runs, used instead of the thread's if it is large enough.
  void use_memory(void* memory, std::int64_t bytes);

  /// The bytes needed there, given the counts of host numbers of several tensors.
  std::int64_t memory_bytes(std::initializer_list<std::uint64_t> counts) const;

  void run();

  /// Waits until the work of all runs in its stream is done.
  void wait() const;

  /// Allocates memory where the plan runs.
  std::shared_ptr<void> allocate(std::int64_t bytes) const;

 private:
  struct Own {
    te_regard_role role;
    std::vector<std::int32_t> numbers;
  };

  std::shared_ptr<const Plan> plan_;
  void* stream_;
  std::vector<Own> own_;
  std::byte* memory_ = nullptr;
  std::int64_t memory_bytes_ = 0;
  te_regard_arguments arguments_ = TE_REGARD_ARGUMENTS_INIT;
};

/// The address of seed and offset, two 64-bit numbers that must be adjacent in memory.
const void* adjacent_seed(const void* seed, const void* offset);

}  // namespace calls
