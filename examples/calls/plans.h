// Plans, and the memory that a run needs beside its tensors: the functions that are called have neither.
#pragma once

#include <te_regard.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace calls {

struct Plan {
  te_regard_problem* problem = nullptr;
  te_regard_plan* plan = nullptr;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan();
};

/// Where calls of this process compute from now on: "cuda", as at first, or a CPU target; null is the best
/// one of this machine.
void use_target(const char* name);

/// The plan for a problem on the target in use, made once.
std::shared_ptr<const Plan> plan_for(const std::string& text);

std::shared_ptr<void> allocate(const Plan& plan, std::int64_t bytes);

/// Memory where the plan runs, aligned to 64 bytes, the same for all calls of this thread in this stream,
/// which run one after the other. It stays until the thread ends, as a graph that was captured has its
/// address.
std::byte* memory_of(const Plan& plan, void* stream, std::int64_t bytes);

}  // namespace calls
