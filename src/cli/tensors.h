// The memory of one call: every tensor that a problem uses, from a file or random.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "cli/array_file.h"
#include "cli/sequences.h"
#include "regard/regard.hpp"

namespace regard::cli {

class Tensors {
 public:
  /// Inputs come from `files` if they are there, from `sequences`, or at random. Outputs, and the O and LSE
  /// that a backward problem reads and a forward run has yet to write, are filled with NaN, so that elements
  /// that a kernel does not write are noticed.
  Tensors(const Problem&, const Sequences&, const std::map<regard_role, LoadedArray>& files, bool convert,
          std::uint64_t seed);

  const Arguments& arguments() const { return arguments_; }

  /// The elements of `role` in row-major order of its logical shape.
  std::vector<std::byte> row_major(regard_role role) const;

  /// Memory of all tensors.
  std::int64_t bytes() const { return bytes_; }

 private:
  void allocate(regard_role role, const Tensor& expected);
  void read(regard_role role, const Tensor& expected, const LoadedArray& loaded, bool convert);
  void write_row_major(regard_role role, const std::byte* elements);

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  Arguments arguments_;
  std::vector<std::unique_ptr<void, Free>> memory_;
  std::int64_t bytes_ = 0;
};

/// The results of a call, ready to be saved; with `convert`, floats are written as float32.
std::vector<OutputArray> outputs_of(const Problem&, const Tensors&, bool convert);

}  // namespace regard::cli
