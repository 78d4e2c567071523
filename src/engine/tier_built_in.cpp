#include "engine/built_in.h"
#include "engine/tiers.h"

namespace regard {

Found find_built_in(Search& search) {
  if (search.settings.built_in) {
    if (const cpu::KernelFunction function = find_built_in(search.text))
      return search.found(Tier::built_in, {function, nullptr, nullptr});
  }
  search.missed("not built into the library");
  if (search.settings.built_in) return find_in_embedded_bundle(search);
  return nullptr;
}

}  // namespace regard
