// One call: a plan, and the tensors that it gets one after the other.
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

  /// A tensor in the shape that the problem has for it. Strides, of all dimensions but the last, are given
  /// where it may lie otherwise than in contiguous memory.
  Call& set(te_regard_role role, const void* data, std::initializer_list<std::int64_t> strides = {});

  /// Seed and offset of dropout as numbers.
  void set_seed(std::uint64_t seed, std::uint64_t offset);

  /// 32-bit numbers on the host; they are copied to where the plan runs. A role has the last ones that it
  /// was given; none: it has no numbers of its own any more.
  Call& set_own(te_regard_role role, std::vector<std::int32_t> numbers);

  /// The caller's memory where the plan runs, used in place of the thread's where it is large enough.
  void use_memory(void* memory, std::int64_t bytes);

  /// How much that is with so many numbers of its own for each of several tensors.
  std::int64_t memory_bytes(std::initializer_list<std::uint64_t> counts) const;

  void run();

  /// Returns when the work of all runs in its stream is done.
  void wait() const;

  /// Memory where the plan runs.
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

/// The address of seed and offset, two 64-bit numbers, of which one lies right after the other.
const void* adjacent_seed(const void* seed, const void* offset);

}  // namespace calls
