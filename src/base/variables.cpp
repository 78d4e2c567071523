#include "base/variables.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>

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

}  // namespace regard
