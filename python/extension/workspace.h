// Scratch memory of one run.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "regard/regard.h"

namespace regard::python {

namespace nb = nanobind;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

/// The caller's array, or else memory that this thread keeps for its next call or, on a GPU, memory of the
/// library that the array `q` is from.
class Workspace {
 public:
  Workspace(nb::handle given, const regard_plan*, bool gpu, nb::handle q);
  ~Workspace() { regard_memory_free(on_gpu_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// For a run in a stream other than PyTorch's current one: the memory is not reused before it is done.
  void used_in(void* stream, nb::handle q) const;

  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void use(nb::handle array, bool gpu);
  [[noreturn]] void refuse_memory();
  void use_own_host();
  void use_own_gpu(const char* target, nb::handle q);

  void* data_ = nullptr;
  std::int64_t bytes_;
  // Released when the call ends.
  Memory once_;
  void* on_gpu_ = nullptr;
  nb::object torch_;
  nb::ndarray<nb::c_contig> theirs_;
};

}  // namespace regard::python
