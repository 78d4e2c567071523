// Python arrays as the regard_tensors of one call.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <vector>

#include "problem.h"
#include "regard/regard.h"
#include "torch_tensor.h"
#include "whole_numbers.h"

namespace regard::python {

/// Where the memory of arrays is.
enum class Place { anywhere, host, gpu };

/// regard_tensors of Python arrays, and the references that keep those alive until the call is over.
class Binding {
 public:
  explicit Binding(const Problem& problem, Place place = Place::anywhere)
      : problem_(problem), place_(place) {}

  /// Binds every keyword that names a role.
  void bind(const nb::dict& arrays);
  /// Binds an array that the caller keeps alive.
  void bind(regard_role role, const ArrayView& view);
  /// A seed is an integer, or an array of seed and offset.
  void draw(nb::handle seed, nb::handle offset);
  regard_arguments& arguments() { return arguments_; }

  /// Memory that pending work in a stream may use.
  struct Busy {
    void* data;
    void* stream;
  };
  const std::vector<Busy>& busy() const { return busy_; }
  /// Notes pending work on a workspace, which is not a tensor.
  void use(nb::handle workspace);
  nb::dict addresses()
      const;  ///< the address of each bound tensor, so that a test can prove that nothing was copied

 private:
  void bind(regard_role role, nb::handle array);
  ArrayView view_of(nb::handle array, const char* name, bool written);

  const Problem& problem_;
  Place place_;
  regard_arguments arguments_ = REGARD_ARGUMENTS_INIT;
  std::vector<nb::ndarray<nb::ro>> owners_;
  std::vector<nb::object> made_;  // from lists, and from tensors that have to be resolved
  std::vector<Numbers> narrowed_;
  std::vector<Busy> busy_;
};

}  // namespace regard::python
