// Arrays of Python as regard_tensor views, without copies, in both directions.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "cuda_array.h"
#include "regard/regard.h"
#include "torch_tensor.h"

namespace regard::python {

namespace nb = nanobind;

/// The order of a [batch, sequence, head, dim] tensor's axes as the Python caller indexes it: entry i is the
/// axis of the caller's array that holds logical axis i. An array is indexed in the order of the problem's
/// `layout`, so that a contiguous array always is what that layout means.
using AxisOrder = std::array<int, 4>;
AxisOrder axis_order(std::string_view layout);

/// Whether `layout` reorders this role's axes: Q, K, V, O and their gradients, when they have all four.
bool follows_layout(regard_role role, int rank);

/// Where arrays lie.
enum class Place { anywhere, host, gpu };

class Problem;

/// regard_tensors of Python arrays, and the references that keep those alive until the call is over.
class Binding {
 public:
  explicit Binding(const Problem& problem, Place place = Place::anywhere)
      : problem_(problem), place_(place) {}

  /// Binds every keyword that names a role; `seed` may also be a plain integer.
  void bind(const nb::dict& arrays);
  /// The caller keeps the array.
  void bind(regard_role role, const ArrayView& view);
  regard_arguments& arguments() { return arguments_; }

  /// Memory on which work may be under way in a stream.
  struct Busy {
    void* data;
    void* stream;
  };
  const std::vector<Busy>& busy() const { return busy_; }
  /// Takes in what work may be under way on a workspace, which is no tensor.
  void use(nb::handle workspace);
  nb::dict addresses()
      const;  ///< where each bound tensor lies, so that a test can prove that nothing was copied

 private:
  void bind(regard_role role, nb::handle array);
  ArrayView view_of(nb::handle array, const char* name, bool written);
  ArrayView view_by_dlpack(nb::handle array, const char* name, bool written);
  ArrayView narrowed(const ArrayView& wide, regard_role role);

  const Problem& problem_;
  Place place_;
  regard_arguments arguments_ = REGARD_ARGUMENTS_INIT;
  std::vector<nb::ndarray<nb::ro>> owners_;
  std::vector<nb::object> made_;  // of lists, and of tensors that have to be resolved
  std::vector<std::unique_ptr<std::int32_t[]>> narrowed_;
  std::vector<Busy> busy_;
};

/// The word of a dtype in problem text and messages, and back.
const char* dtype_word(regard_dtype dtype);
regard_dtype dtype_from_word(std::string_view word);

/// Whether an array says that it lies on a GPU; the name is for the sentence where it does not answer.
bool on_gpu(nb::handle array, const char* name);

/// Refuses a tensor of PyTorch whose elements PyTorch or NumPy would read where there is no memory, and what
/// stands for a tensor that is not there yet. For whatever is read by others than the kernels.
void check_readable(nb::handle value, const char* name);

/// Refuses what a graph that PyTorch records would lose: it would hold the results of this one call, or
/// memory that nobody fills.
void refuse_traced(const nb::dict& named);
[[noreturn]] void refuse_traced(const char* name);

/// An array as DLPack takes it. ml_dtypes' NumPy arrays have types that neither DLPack nor the buffer
/// protocol of NumPy exports; what lies on a GPU is taken without a wait (stream -1), as the caller's stream
/// orders the work.
nb::object exportable(nb::handle array);

/// A new 64-byte aligned array in host memory that any DLPack consumer can take over.
nb::object empty(const std::vector<std::size_t>& shape, std::string_view dtype, bool zeros);

/// The role of a name, or REGARD_ROLE_COUNT.
regard_role role_from_name(std::string_view name);

}  // namespace regard::python
