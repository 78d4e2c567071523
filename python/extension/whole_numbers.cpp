#include "whole_numbers.h"

#include <string>

#include "foreign.h"
#include "status.h"

namespace regard::python {

using nb::dlpack::dtype_code;

bool is_int64(nb::dlpack::dtype type) {
  return type.code == static_cast<std::uint8_t>(dtype_code::Int) && type.bits == 64 && type.lanes == 1;
}

nb::object array_of_list(nb::handle list, const char* name) {
  nb::object array;
  try {
    array = nb::module_::import_("numpy").attr("asarray")(list);
  } catch (nb::python_error& error) {
    pass_on(error);
    raise_from(error, REGARD_INVALID, std::string(name) + " is a list that is no array of numbers");
  }
  const nb::object type = array.attr("dtype"), kind = type.attr("kind");
  const std::string letter = nb::cast<std::string>(kind);
  const bool whole = letter == "i" || nb::cast<std::size_t>(array.attr("size")) == 0;
  if (!whole)
    raise(REGARD_INVALID,
          std::string(name) + " is a list of " +
              (letter == "U" || letter == "S"   ? "text"
               : letter == "O" || letter == "u" ? "values that are no numbers or do not fit in 64 bits"
                                                : nb::cast<std::string>(nb::str(type))) +
              "; it must hold 32-bit whole numbers");
  return array.attr("astype")("int64");
}

ArrayView narrowed(const ArrayView& wide, const regard_tensor& expected, const char* name, Numbers& memory) {
  ArrayView narrow = wide;
  narrow.type = {static_cast<std::uint8_t>(dtype_code::Int), 32, 1};
  bool fits = wide.rank == expected.rank;
  std::int64_t count = 1;
  for (int axis = 0; fits && axis < wide.rank; ++axis) {
    const std::int64_t size = wide.shape[static_cast<std::size_t>(axis)];
    fits = size >= 0 && size <= expected.shape[axis];
    count *= size;
  }
  if (!fits) return narrow;
  memory = std::make_unique<std::int32_t[]>(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = wide.rank; axis-- > 0;) {
      const auto a = static_cast<std::size_t>(axis);
      offset += rest % wide.shape[a] * wide.strides[a];
      rest /= wide.shape[a];
    }
    const std::int64_t number = static_cast<const std::int64_t*>(wide.data)[offset];
    if (number != static_cast<std::int32_t>(number))
      raise(REGARD_INVALID,
            std::string(name) + " has the number " + std::to_string(number) + ", and it must fit in 32 bits");
    memory[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(number);
  }
  narrow.data = memory.get();
  std::int64_t stride = 1;
  for (int axis = wide.rank; axis-- > 0;) {
    narrow.strides[static_cast<std::size_t>(axis)] = stride;
    stride *= wide.shape[static_cast<std::size_t>(axis)];
  }
  return narrow;
}

}  // namespace regard::python
