// Functions that words of a problem can say.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "plan/function_steps.h"
#include "plan/plan.h"
#include "problem/problem.h"
#include "regard/regard.h"

namespace regard {

/// A captured tensor that kernels read in the role of a word, and its gradient likewise.
struct CapturedAsWord {
  int index = 0;                    ///< in `tensors=`
  regard_role role = REGARD_BIAS;   ///< REGARD_ALIBI or REGARD_BIAS
  std::array<int, 4> dimensions{};  ///< which of the role each of its own is; -1: its index is 0
};

/// A problem with words in place of its functions.
struct FunctionWords {
  Problem problem;                       ///< of the words
  Problem functions;                     ///< as the caller gave it
  std::optional<CapturedAsWord> tensor;  ///< the one that becomes a bias, if there is one
  std::optional<FunctionSteps> mask;     ///< `keep`, if the first stage writes it as bits
  std::optional<FunctionSteps> ranges;   ///< the range of each row, if the first stage writes these
};

/// Causal masks and windows on both diagonals, sink tokens, a soft cap, ALiBi, elementwise bias. Fails, with
/// the reason, if words do not say all functions of the problem, which must have one.
Result<FunctionWords> in_words(const Problem&);

/// The same where `keep` becomes the word `ranges`, and the score another word if there is one. Fails if
/// there is no `keep`, if it is not one range of keys for each row, or if words do not say the score.
Result<FunctionWords> in_ranges(const Problem&);

/// The same where `keep` becomes the word `bits`, and the score another word if there is one. Fails if there
/// is no `keep`, or if words do not say the score.
Result<FunctionWords> in_bits(const Problem&);

/// The ways in which words stand in for the functions of a problem, from the one that costs least on.
struct WayInWords {
  FunctionsBy by;
  Result<FunctionWords> (*find)(const Problem&);
};
inline constexpr WayInWords ways_in_words[] = {
    {FunctionsBy::words, in_words}, {FunctionsBy::ranges, in_ranges}, {FunctionsBy::bits, in_bits}};

/// What words require of the tensor that they read, and what happens to others; for a plan with such a
/// tensor.
std::string condition_of(const FunctionWords&, bool on_cpu);

}  // namespace regard
