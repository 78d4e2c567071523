// Plans, and the memory that a run needs besides its tensors: the emulated interfaces have arguments for
// neither.
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

/// Selects where later calls of this process compute: "cuda" (the default), a CPU target, or null for the
/// best CPU target of this machine.
void use_target(const char* name);

/// The plan for a problem on the selected target, made once.
std::shared_ptr<const Plan> plan_for(const std::string& text);

std::shared_ptr<void> allocate(const Plan& plan, std::int64_t bytes);

/// Memory where the plan runs, aligned to 64 bytes and shared by all calls of this thread in this stream,
/// which run one after the other. It is kept until the thread ends, because a captured graph contains its
/// address.
std::byte* memory_of(const Plan& plan, void* stream, std::int64_t bytes);

}  // namespace calls
