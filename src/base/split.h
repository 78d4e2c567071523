// "a,b" as a, b.
#pragma once

#include <string_view>
#include <vector>

namespace regard {

/// The parts of `text` between any of `separators`, empty ones among them; views into `text`.
std::vector<std::string_view> split(std::string_view text, std::string_view separators);

}  // namespace regard
