// How large a function of the score or the mask may be. What is larger is refused with a sentence.
#pragma once

#include <cstddef>

namespace regard::function {

constexpr std::size_t most_characters = 4096;
constexpr std::size_t most_nodes = 256;
constexpr int most_depth = 64;
constexpr std::size_t most_tensors = 8;
constexpr std::size_t most_dimensions = 4;
constexpr std::size_t most_numbers = 16;

}  // namespace regard::function
