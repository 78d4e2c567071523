#include "base/process.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

extern char** environ;  // NOLINT: POSIX

namespace regard {
namespace {
std::vector<std::string_view> given() {
  std::vector<std::string_view> all;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) all.emplace_back(*one);
  return all;
}
}  // namespace

bool is_privileged() {
  return getauxval(AT_SECURE) != 0;
}

const char* variable(const char* name) {
  return is_privileged() ? nullptr : std::getenv(name);
}

std::vector<std::string_view> variables() {
  return is_privileged() ? std::vector<std::string_view>() : given();
}

bool ignores_variables(std::string_view prefix) {
  return is_privileged() &&
         std::ranges::any_of(given(), [&](std::string_view one) { return one.starts_with(prefix); });
}

std::string library_path() {
  Dl_info found{};
  link_map* map = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&library_path), &found, reinterpret_cast<void**>(&map),
              RTLD_DL_LINKMAP) == 0)
    return {};
  const bool is_program = map->l_name == nullptr || *map->l_name == '\0';
  const char* const name = is_program ? "/proc/self/exe" : map->l_name;
  const std::unique_ptr<char, decltype(&std::free)> resolved(realpath(name, nullptr), &std::free);
  return resolved != nullptr ? resolved.get() : name;
}

}  // namespace regard
