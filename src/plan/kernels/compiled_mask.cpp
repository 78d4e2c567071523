#include "plan/kernels/compiled_mask.h"

#include <algorithm>

#include "problem/mask_alone.h"

namespace regard {

Signature mask_function(const Signature& s) {
  Signature c;
  if (s.keep.empty()) return c;
  const Result<MaskAlone> mask = mask_alone(s.keep.view(), s.tensors.view());
  if (!mask) return c;  // a signature of no problem
  c.keep = InternedText(mask->keep);
  c.tensors = InternedText(mask->tensors);
  return c;
}

MaskSchedule mask_schedule(const Problem& p) {
  MaskSchedule schedule{};
  const Result<MaskAlone> mask = mask_alone(p.keep.view(), p.tensors.view());
  if (!mask) return schedule;  // it has been read before
  for (std::size_t i = 0; i < mask->of_numbers.size(); ++i)
    schedule.call.numbers[i] = p.numbers.of[static_cast<std::size_t>(mask->of_numbers[i])].bits;
  std::ranges::fill(schedule.captured, static_cast<u8>(function::most_tensors));
  std::ranges::transform(mask->of_tensors, schedule.captured,
                         [](int tensor) { return static_cast<u8>(tensor); });
  return schedule;
}

}  // namespace regard
