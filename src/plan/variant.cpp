#include "plan/variant.h"

#include <algorithm>

#include "problem/functions.h"

namespace regard {

/// A probability or a cap; a page size.
template <class Value>
constexpr Value present = 0.5;
template <>
constexpr std::int64_t present<std::int64_t> = 16;

namespace {

/// A signature has no numbers: its functions have literals, which are numbers of a problem.
void take_numbers(Problem& problem) {
  if (!has_function(problem)) return;
  const Result<FunctionTexts> texts = canonical({std::string(problem.score.view()),
                                                 std::string(problem.keep.view()),
                                                 std::string(problem.tensors.view()),
                                                 std::string(problem.grads.view()),
                                                 {}},
                                                Numbers::of_problem);
  if (!texts) return;  // validate() says why
  problem.score = InternedText(texts->score);
  problem.keep = InternedText(texts->keep);
  problem.numbers = texts->numbers;
}

}  // namespace

Problem example_of(const Signature& signature) {
  Problem problem;
  problem.b = problem.hq = problem.hk = 2;
  problem.sq = problem.sk = 64;
  // Only new tokens are rotated, or have slots.
  if (signature.pass == Pass::append || signature.rope != Rope::none)
    (signature.slots == SlotType::none ? problem.snew : problem.tnew) = 1;
  if (signature.pass == Pass::merge) problem.parts = 2;
  // Packed keys take no new tokens and have no left padding; those of a cache are not packed.
  if (signature.varlen && !signature.paged && (problem.snew > 0 || signature.left_padding)) problem.cache = 2;
  // A window that hides something, even for one query: the kernel is one with a mask.
  if (signature.mask == Mask::window || signature.mask == Mask::window_top_left)
    problem.window_left = problem.window_right = 0;
#define REGARD_COPY_SIGNATURE(name) problem.name = signature.name;
#define REGARD_COPY_PRESENCE(name) problem.name = signature.name ? present<decltype(problem.name)> : 0;
#define REGARD_COPY_SHAPE(name)
#define REGARD_COPY(category, type, name, default_value, doc) REGARD_COPY_##category(name)
  REGARD_PROBLEM_FIELDS(REGARD_COPY)
#undef REGARD_COPY
#undef REGARD_COPY_SIGNATURE
#undef REGARD_COPY_PRESENCE
#undef REGARD_COPY_SHAPE
  take_numbers(problem);
  return problem;
}

bool Exclusion::holds_for(const Signature& signature) const {
  const auto has_a_value = [&signature](const OfField& listed) {
    return std::ranges::any_of(listed.values, [&](const Signature& value) {
      bool equal = false;
      for_each_field(value, signature, [&](Field field, const auto& one, const auto& other) {
        if (field == listed.field) equal = one == other;
      });
      return equal;
    });
  };
  return std::ranges::all_of(fields, has_a_value);
}

}  // namespace regard
