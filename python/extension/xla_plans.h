// Plans of foreign calls. A compiled program makes the same calls again and again, and all it can carry along
// is text: so what that text stands for is remembered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "regard/regard.h"
#include "roles.h"

namespace regard::python::xla {

/// What a program carries along.
struct Asked {
  std::string_view problem;
  std::string_view inputs, outputs;  // roles by name, a blank between two
  std::string_view target, family;   // of the plan; "" where the library may choose
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

/// From any thread.
std::shared_ptr<const Planned> planned(const Asked& asked);

}  // namespace regard::python::xla
