// Problem and TensorSpec as Python sees them.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "regard/regard.h"
#include "roles.h"

namespace regard::python {

namespace nb = nanobind;

/// What a problem expects of one tensor; axes are in the order that the problem's layout names.
struct TensorSpec {
  std::string name;
  std::string use;  // "input", "output" or "optional"
  std::string dtype;
  std::vector<std::int64_t> shape;
};

class Problem {
 public:
  explicit Problem(regard_problem* handle);  ///< takes ownership of the handle
  Problem(const Problem&) = delete;

  /// Problem text with more words appended: True adds the bare word, None and False add nothing.
  static regard_problem* parse(std::string text, const nb::dict& words);

  const regard_problem* handle() const { return handle_.get(); }
  const AxisOrder& order() const { return order_; }
  struct Expected {
    regard_use use = REGARD_UNUSED;
    regard_dtype dtype = REGARD_FP32;
  };
  const Expected& expected(regard_role role) const { return expected_[role]; }
  std::string text() const { return regard_problem_text(handle()); }
  std::string json() const { return regard_problem_json(handle()); }
  double flops() const { return regard_problem_flops(handle()); }
  nb::object tensors() const;

 private:
  std::unique_ptr<regard_problem, void (*)(regard_problem*)> handle_;
  AxisOrder order_{};
  std::array<Expected, REGARD_ROLE_COUNT> expected_{};
};

void declare_problem(nb::module_& module);

}  // namespace regard::python
