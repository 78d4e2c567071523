// Plan as Python sees it, and the calls that take tensors.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

#include "problem.h"
#include "regard/regard.h"

namespace regard::python {

/// Keyword options that say where and how to run; keeps the strings alive that the C struct points to.
struct PlanOptions {
  std::optional<std::string> target;
  std::optional<std::string> family;
  int threads = 0;
  std::optional<std::string> functions;
  PlanOptions(nb::handle target, nb::handle family, nb::handle threads, nb::handle functions);
  regard_plan_options c() const {
    return {sizeof(regard_plan_options), target ? target->c_str() : nullptr,
            family ? family->c_str() : nullptr, threads, functions ? functions->c_str() : nullptr};
  }
};

class Plan {
 public:
  Plan(nb::object problem, PlanOptions options);
  Plan(const Plan&) = delete;
  ~Plan() { regard_plan_destroy(handle_); }

  nb::object problem() const { return problem_; }
  const PlanOptions& options() const { return options_; }
  std::int64_t workspace_bytes() const { return regard_plan_workspace_bytes(handle_); }
  nb::str json() const;
  const char* target() const { return regard_plan_target(handle_); }
  void prepare();
  /// `workspace` None: memory that this thread keeps for its next call or, on a GPU, of the array library.
  void run(nb::handle seed, nb::handle offset, nb::handle workspace, nb::handle stream,
           const nb::kwargs& tensors) const;
  /// The same with tensors that are already bound; `q` identifies the array library.
  void launch(const regard_arguments& arguments, nb::handle workspace, nb::handle stream, nb::handle q) const;
  bool on_gpu() const { return gpu_; }

 private:
  nb::object problem_;  // a Problem; shared with Python
  PlanOptions options_;
  regard_plan* handle_ = nullptr;
  bool gpu_ = false;
};

void declare_plan(nb::module_& module);

}  // namespace regard::python
