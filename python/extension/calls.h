// Calls with PyTorch tensors that match an earlier call (given.h): they run without rendering the problem
// text again.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "given.h"
#include "plan.h"
#include "regard/regard.h"

namespace regard::python {

class Calls {
 public:
  /// Makes a call that matches a remembered one, and allocates outputs that are not given. Returns None if
  /// there is no match, and for anything unusual (other arrays, tensors that require a gradient unless the
  /// call is recorded).
  nb::object again(const std::string& pass, const nb::dict& inputs, const nb::dict& options,
                   const nb::dict& outputs, bool recorded) const;

  /// `described`: the outputs in the order of the results, each as name, shape and dtype (None: that of Q);
  /// `zeros`: outputs allocated here start as zeros.
  void remember(const std::string& pass, const nb::dict& inputs, const nb::dict& options,
                const nb::dict& outputs, nb::object plan, const nb::list& described, bool zeros);

 private:
  struct Output {
    regard_role role;
    nb::object like;  ///< expanded
  };
  struct Known {
    nb::object plan;
    std::vector<Output> outputs;
    bool zeros;
  };
  static nb::object run(const Known& known, const Given& given);

  // Shared with running calls, as another thread may drop it from the cache meanwhile.
  std::unordered_map<std::string, std::shared_ptr<const Known>> known_;
};

void declare_calls(nb::module_& module);

}  // namespace regard::python
