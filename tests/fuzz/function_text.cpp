#include "function/canonical.h"
#include "function/derivative.h"
#include "function/parse.h"
#include "function/print.h"
#include "fuzz/fuzz.h"

using namespace regard;

/// The text of a function, after those of its tensors and a line break.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text(data, size);
  const std::size_t end = text.find('\n');
  std::vector<function::Captured> tensors;
  if (end != std::string_view::npos) {
    if (auto declared = function::parse_tensors(text.substr(0, end))) tensors = std::move(*declared);
  }
  const std::string_view body = end == std::string_view::npos ? text : text.substr(end + 1);
  for (const function::Purpose purpose : {function::Purpose::keep, function::Purpose::score}) {
    Result<function::Function> parsed = function::parse(purpose, body, tensors);
    if (!parsed) continue;
    const std::string printed = function::print(*parsed);
    if (printed.size() > function::most_characters) continue;
    const Result<function::Function> again = function::parse(purpose, printed, tensors);
    fuzz::demand(again && function::print(*again) == printed,
                 "print(parse(print(function))) == print(function)");
    (void)function::canonical(*parsed);
    if (purpose == function::Purpose::score) (void)function::derivatives(*parsed, {0, 1, 2, 3, 4, 5, 6, 7});
  }
  return 0;
}
