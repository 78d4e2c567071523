// The C++ text of a mask that is a function, for the kernel that is compiled for it.
#pragma once

#include <string>

#include "problem/problem.h"

namespace regard {

/// For a signature with `keep`: what `#include "kernels/function/generated.h"` stands for. It has
/// `RowValues`, which depend on the row alone, `row_values(call, place)`, and `keep(call, place, row_values)`
/// (kernels/portable/mask_place.h); and for many rows and keys together, `numbers_of_row(call, place, to)`
/// and `numbers_of_key(call, place, to)`, whose intervals `keep_of_tile(call, place, rows, keys)` takes. It
/// is made from the tree: no name or text of a caller is in it.
Result<std::string> function_source(const Signature&);

/// Likewise what `#include "kernels/function/generated_range.h"` stands for: `Range32 row_range(call, at)`.
Result<std::string> range_source(const Signature&);

}  // namespace regard
