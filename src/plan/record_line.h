// How a line of a record is written, for who writes it (engine/record.h) and who reads it (build/record.h).
#pragma once

#include <string_view>

namespace regard {

/// Between the target and the problem.
inline constexpr std::string_view bar_of_record = " | ";

/// Ends a line that a process has left without its end, as the next one to write found it. By itself in a
/// line it means nothing.
inline constexpr std::string_view end_of_cut_line = " #cut";

}  // namespace regard
