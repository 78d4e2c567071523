#include "base/own_file.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

namespace regard {

std::string own_file() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(&own_file), &found) == 0 || found.dli_fname == nullptr) return {};
  const std::unique_ptr<char, decltype(&std::free)> place(realpath(found.dli_fname, nullptr), &std::free);
  return place != nullptr ? place.get() : "";
}

}  // namespace regard
