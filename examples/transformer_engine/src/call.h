// One call: a plan, and the tensors that it gets one after the other.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "plans.h"

namespace ck_fused_attn {

class Call {
 public:
  Call(const std::string& text, hipStream_t stream) : plan_(plan_for(text)), stream_(stream) {}

  /// A tensor in the shape that the problem has for it. Strides, of all dimensions but the last, are given
  /// where it may lie otherwise than in contiguous memory.
  Call& set(te_regard_role role, const void* data, std::initializer_list<std::uint64_t> strides = {});

  /// Lengths on the host; they are copied to where the plan runs.
  Call& set_lengths(te_regard_role role, std::vector<std::int32_t> lengths);

  void run();

 private:
  struct Lengths {
    te_regard_role role;
    std::vector<std::int32_t> values;
  };

  std::shared_ptr<const Plan> plan_;
  hipStream_t stream_;
  std::vector<Lengths> lengths_;
  te_regard_arguments arguments_ = TE_REGARD_ARGUMENTS_INIT;
};

}  // namespace ck_fused_attn
