// The arguments of a call with PyTorch tensors, and the key by which two such calls match.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "regard/regard.h"
#include "torch_tensor.h"

namespace regard::python {

/// A call as it was requested: the required arrays, the optional arguments, and the requested outputs.
struct Asked {
  const std::string& pass;
  const nb::dict &inputs, &options, &outputs;
  Source source = Source::caller;
};

/// The same, parsed. The views are valid as long as the arrays are.
struct Given {
  struct Array {
    regard_role role;
    nb::handle object;
    ArrayView view;
  };

  /// Covers everything but addresses, strides, and where and with which random numbers the call runs.
  std::string key;
  std::vector<Array> arrays;
  nb::handle stream = Py_None;
  std::uint64_t seed = 0, offset = 0;

  /// Nothing for anything unusual: other arrays, or values that no digits or letters describe.
  static std::optional<Given> read(const Asked& asked);

  const Array* find(regard_role role) const;
  /// Q, or what the call has in its place.
  const Array* leader() const;

 private:
  bool read(const nb::dict& named, Source source);
  bool read(std::string_view name, nb::handle value, Source source);
};

/// Whether it is a PyTorch tensor of at least one dimension, without a flaw.
bool is_usual(nb::handle array);

}  // namespace regard::python
