// The scratch memory of a foreign call.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "xla_abi.h"
#include "xla_plans.h"

namespace regard::python::xla {

/// A program asks for that many more bytes than the plan needs, as XLA promises less alignment.
constexpr std::int64_t workspace_alignment = 64;

/// The program brings it along as the result after the outputs, of the size that the plan of the tracing
/// machine needs. An exported program may run where the plan needs more (more cores, another target, a larger
/// GPU): there the call allocates it, on a GPU from XLA in the order of its stream.
class Workspace {
 public:
  Workspace(const Call&, const Planned&, bool on_gpu);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  bool use_of_program(const Call&, const Planned&);
  void allocate_on_host();
  void allocate_on_gpu();

  const Api& api_;
  Context* context_;
  void* data_ = nullptr;
  std::int64_t bytes_;
  std::unique_ptr<void, Free> on_host_;
  bool on_gpu_ = false;  ///< allocated there
};

}  // namespace regard::python::xla
