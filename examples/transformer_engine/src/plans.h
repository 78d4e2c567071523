// Plans, and the memory that a run needs beside its tensors: TransformerEngine's functions have neither.
#pragma once

#include <te_regard.h>

#include <memory>
#include <string>

#include "ck_fused_attn/ck_fused_attn.hpp"

namespace ck_fused_attn {

struct Plan {
  te_regard_problem* problem = nullptr;
  te_regard_plan* plan = nullptr;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan();
};

/// The plan for a problem on the target in use, made once.
std::shared_ptr<const Plan> plan_for(const std::string& text);

/// Memory where the plan runs, aligned to 64 bytes, the same for all calls of this thread in this stream,
/// which run one after the other. It stays until the thread ends, as a graph that was captured has its
/// address.
std::byte* memory_of(const Plan& plan, hipStream_t stream, std::int64_t bytes);

}  // namespace ck_fused_attn
