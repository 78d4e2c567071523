#include "plan/feature.h"

namespace regard {

std::string_view word(Feature feature) {
#define REGARD_WORD(name, kinds, doc) #name,
  static constexpr std::string_view words[] = {REGARD_FEATURES(REGARD_WORD)};
#undef REGARD_WORD
  return words[static_cast<std::size_t>(feature)];
}

std::vector<Feature> features_of(TargetKind kind) {
  constexpr auto bit = [](TargetKind one) { return 1u << static_cast<unsigned>(one); };
  constexpr unsigned cpu = bit(TargetKind::cpu), cuda = bit(TargetKind::cuda), hip = bit(TargetKind::hip);
  std::vector<Feature> found;
#define REGARD_ADD(name, kinds, doc) \
  if (((kinds) & bit(kind)) != 0) found.push_back(Feature::name);
  REGARD_FEATURES(REGARD_ADD)
#undef REGARD_ADD
  return found;
}

}  // namespace regard
