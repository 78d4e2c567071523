// Plans of foreign calls. A compiled program makes the same calls again and again, and can carry only text,
// so the plan that a text stands for is cached.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "regard/regard.h"
#include "roles.h"

namespace regard::python::xla {

/// What a program carries.
struct Asked {
  std::string_view problem;
  std::string_view inputs, outputs;            // roles by name, separated by blanks
  std::string_view target, family, functions;  // of the plan; "" lets the library choose
  std::int32_t threads = 0;
};

/// What the text stands for.
struct Planned {
  explicit Planned(const Asked& asked);
  ~Planned();
  Planned(const Planned&) = delete;

  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  AxisOrder order{};
  std::vector<regard_role> inputs, outputs;  // REGARD_ROLE_COUNT: a buffer that is no tensor of the problem
};

/// Callable from any thread.
std::shared_ptr<const Planned> planned(const Asked& asked);

/// Later calls are planned again. It takes no lock, as `planned` may wait for Python's while it has its own.
void forget_plans();

}  // namespace regard::python::xla
