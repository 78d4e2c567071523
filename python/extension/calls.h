// Calls with PyTorch's tensors that are like earlier ones (given.h): run without writing the problem's text
// again.
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
  /// Makes a call that is like one remembered: outputs that are not given are made. None where there is none,
  /// and for whatever is unusual (other arrays, tensors that require a gradient, unless the call is
  /// recorded).
  nb::object again(const std::string& pass, const nb::dict& inputs, const nb::dict& options,
                   const nb::dict& outputs, bool recorded) const;

  /// `described`: the outputs in the order of the results, each by name, shape, and dtype, None: that of Q;
  /// `zeros`: those that are made start as zeros.
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

  // Shared with calls that run, as another thread may forget it meanwhile.
  std::unordered_map<std::string, std::shared_ptr<const Known>> known_;
};

void declare_calls(nb::module_& module);

}  // namespace regard::python
