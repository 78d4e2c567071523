#include "base/own_file.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <memory>

namespace regard {

std::string own_file() {
  Dl_info found{};
  link_map* map = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&own_file), &found, reinterpret_cast<void**>(&map),
              RTLD_DL_LINKMAP) == 0)
    return {};
  const bool is_program = map->l_name == nullptr || *map->l_name == '\0';
  const char* const name = is_program ? "/proc/self/exe" : map->l_name;
  const std::unique_ptr<char, decltype(&std::free)> place(realpath(name, nullptr), &std::free);
  return place != nullptr ? place.get() : name;
}

}  // namespace regard
