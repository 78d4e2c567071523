// Whether splitting the keys pays.
#include <fmt/format.h>

#include "plan/plan_parts.h"
#include "plan/recipe.h"
#include "plan/rules.h"

namespace regard {

bool may_split(const Question& q) {
  return splits_keys(*q.candidate.recipe) && q.problem.splits <= 1 && !q.problem.batch_invariant;
}

Refusal blocks_are_few(const Question& q, std::int64_t blocks, std::int64_t enough) {
  if (blocks < enough) return {};
  return fmt::format(
      "{} blocks already keep {} workers busy, so the keys are not split; splits=N forces a split", blocks,
      workers(q.target, q.options));
}

Refusal keys_are_many(const Question& q, std::int64_t enough) {
  if (q.problem.sk >= enough) return {};
  return fmt::format("{} keys are too few to split; {} are enough, and splits=N forces it", q.problem.sk,
                     enough);
}

Refusal split_is_invariant(const Question& q) {
  if (!q.problem.batch_invariant || !splits_keys(*q.candidate.recipe)) return {};
  return std::string(
      "with batch_invariant the batch must not decide whether keys are split; forward does not split them");
}

Refusal parts_are_invariant(const Question& q) {
  const Problem& p = q.problem;
  if (!cuts_at_multiples(p)) return {};
  const bool cut = parts_at_multiples(p, q.candidate.tile->algorithm.block_k) > 1;
  if (splits_keys(*q.candidate.recipe) == cut) return {};
  return cut ? std::string(
                   "with batch_invariant keys are split at the same places in every call, and a learned sink "
                   "is added by the merge; splits=1 leaves them whole")
             : std::string("with batch_invariant so few keys are not split in any call");
}

}  // namespace regard
