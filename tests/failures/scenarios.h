// A small example of each public call, for tests that withhold a resource from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "regard/regard.h"

namespace regard::test {

/// A problem with memory for its tensors, made before anything fails.
class Call {
 public:
  explicit Call(const char* text) : text_(text) {
    regard_problem_parse(text, &problem);
    for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
      regard_use use;
      regard_tensor& tensor = arguments.tensor[role];
      regard_problem_tensor(problem, static_cast<regard_role>(role), &use, &tensor);
      if (use != REGARD_INPUT && use != REGARD_OUTPUT) continue;
      std::size_t count = 1;
      for (int i = 0; i < tensor.rank; ++i) count *= static_cast<std::size_t>(tensor.shape[i]);
      std::vector<float>& own = memory_.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i) own[i] = static_cast<float>(i % 7) / 8;
      if (use == REGARD_OUTPUT) outputs_.push_back(memory_.size() - 1);
      tensor.data = own.data();
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { regard_problem_destroy(problem); }

  const char* text() const { return text_; }
  void clear() {
    for (const std::size_t output : outputs_) std::ranges::fill(memory_[output], -7.0F);
  }
  bool wrote() const {
    for (const std::size_t output : outputs_)
      for (const float value : memory_[output])
        if (value == -7.0F) return false;
    return true;
  }

  regard_problem* problem = nullptr;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;

 private:
  const char* text_;
  std::vector<std::vector<float>> memory_;
  std::vector<std::size_t> outputs_;
};

struct Scenario {
  const char* name;
  std::function<regard_status()> call;
};

/// All scenarios, for a process that forks for each.
std::vector<Scenario> scenarios(Call& forward, Call& backward, Call& cached);

inline constexpr const char* forward_problem = "fwd fp32 h=2 s=40 d=64 mask=causal lse";
inline constexpr const char* backward_problem = "bwd fp32 h=2 s=40 d=64";
/// A problem without a built-in kernel.
inline constexpr const char* cached_problem = "fwd fp32 h=1 s=40 d=24 mask=causal";

/// Compiles the kernel of `cached_problem` into the cache; returns what went wrong.
std::string fill_cache();

/// Runs `body` in a forked child; returns what went wrong, or how the child died.
std::string in_child(const std::function<std::string()>& body);

/// The number of scenarios. A child counts them: this process never uses the library, so that no child
/// inherits anything that the library remembers.
std::size_t scenario_count();

/// Runs `body` with one of the scenarios in a child.
std::string with_scenario(std::size_t index, const std::function<std::string(const Scenario&)>& body);

/// What is wrong with the status of a call that lacked a resource; empty if nothing is.
std::string defect(const char* when, regard_status status);

}  // namespace regard::test
