// The scratch memory of a foreign call.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "xla_abi.h"
#include "xla_plans.h"

namespace regard::python::xla {

/// A program requests this many bytes more than the plan needs, as XLA guarantees less alignment:
/// `xla_alignment` at most.
constexpr std::int64_t workspace_alignment = 64, xla_alignment = 16;

/// The program passes it as the result after the outputs, of the size that the plan of the tracing machine
/// needs. An exported program may run where the plan needs more (more cores, another target, a larger GPU):
/// there the call allocates it, on a GPU from XLA in stream order.
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

  std::size_t bytes_to_align() const { return static_cast<std::size_t>(bytes_ + workspace_alignment); }

  const Api& api_;
  Context* context_;
  void* data_ = nullptr;
  std::int64_t bytes_;
  std::unique_ptr<void, Free> on_host_;
  void* on_gpu_ = nullptr;  ///< allocated there
};

}  // namespace regard::python::xla
