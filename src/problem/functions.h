// The functions of a problem: from the texts of its fields to trees.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "function/canonical.h"
#include "problem/problem.h"

namespace regard {

/// The functions of a problem; one that it does not have has no root.
struct Functions {
  function::Function score, keep;
  std::vector<function::Captured> tensors;  ///< what both read
  std::vector<int> gradients;               ///< the tensors whose gradient backward writes

  bool any() const { return score.root != function::none || keep.root != function::none; }
};

/// Fails for a problem whose text is not one that `canonical` made.
Result<Functions> functions_of(const Problem&);

inline bool has_function(const Problem& p) {
  return !p.score.empty() || !p.keep.empty();
}

/// The index in `tensors=` of the tensor with that name.
Result<int> captured_index(const Problem&, std::string_view name);

/// Fields as a caller writes them.
struct FunctionTexts {
  std::string score, keep, tensors, grads;
  FunctionNumbers numbers;
  bool operator==(const FunctionTexts&) const = default;
};

/// Where numbers come from: a caller, who must use each of them; a problem, some of whose words are replaced;
/// nowhere, as a kernel's signature has none.
enum class Numbers : std::uint8_t { given, of_problem, without_values };

/// The one way to write them: literals are numbers, those of `keep` after those of `score`.
Result<FunctionTexts> canonical(FunctionTexts given, Numbers of_numbers);

/// n0:64,f1:0.5
std::string print(const FunctionNumbers&);
Result<FunctionNumbers> parse_numbers(std::string_view text);

}  // namespace regard
