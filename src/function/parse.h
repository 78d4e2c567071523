// From a function's text to its tree.
#pragma once

#include <string_view>
#include <vector>

#include "function/tree.h"

namespace regard::function {

/// Which function it is: a score becomes fp32, a mask has to be a condition.
enum class Purpose : bool { score, keep };

/// `text`: an expression, after any local names: `d=q-kv;s-d*d*w[h]`. `tensors`: those that it may read. The
/// error's message is a sentence that ends with the place: "…, at character 5".
Result<Function> parse(Purpose purpose, std::string_view text, std::vector<Captured> tensors);

/// `slope:fp32[1],doc:int32[2]`: names, types and dimensions of the tensors that a function reads.
Result<std::vector<Captured>> parse_tensors(std::string_view text);

}  // namespace regard::function
