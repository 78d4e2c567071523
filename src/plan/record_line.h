// The format of a line of a record, for its writer (engine/record.h) and its reader (aot/record.h).
#pragma once

#include <string_view>

namespace regard {

/// Between the target and the problem.
inline constexpr std::string_view bar_of_record = " | ";

/// Marks the end of a line that a process left incomplete, as the next writer found it. Alone on a line it
/// means nothing.
inline constexpr std::string_view end_of_cut_line = " #cut";

}  // namespace regard
