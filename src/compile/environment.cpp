#include "compile/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "base/process.h"
#include "base/text.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

/// Variables read by compilers, linkers and wrappers that would change a kernel, or write files.
constexpr std::string_view left_out[] = {"CCC_OVERRIDE_OPTIONS",
                                         "CCC_ADD_ARGS",  // options for clang
                                         "GCC_COMPARE_DEBUG",
                                         "DEPENDENCIES_OUTPUT",
                                         "SUNPRO_DEPENDENCIES",
                                         "CPATH",
                                         "C_INCLUDE_PATH",
                                         "CPLUS_INCLUDE_PATH",  // kernels include nothing from there
                                         "GNUTARGET",
                                         "LDEMULATION",
                                         "LD_RUN_PATH",  // options for ld
                                         "NVCC_PREPEND_FLAGS",
                                         "NVCC_APPEND_FLAGS",
                                         "HIPCC_COMPILE_FLAGS_APPEND",
                                         "HIPCC_LINK_FLAGS_APPEND"};

/// Where the parts of gcc, which are programs themselves, are looked for first.
constexpr const char* in_identity[] = {"COMPILER_PATH", "GCC_EXEC_PREFIX"};

/// Where the linker looks for the C library before anywhere else.
constexpr const char* libraries = "LIBRARY_PATH";

std::string value_of(const char* name) {
  const char* const value = variable(name);
  return value != nullptr ? value : "";
}

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

/// Many programs set folders there; only one with a C library in it affects kernels.
std::string folders_with_a_c_library() {
  const std::string set = value_of(libraries);
  std::string found;
  for (const std::string_view folder : split(set, ":")) {
    std::error_code ignored;
    const auto has = [&](const char* file) { return fs::exists(fs::path(folder) / file, ignored); };
    if (!folder.empty() && (has("libc.so") || has("libc.a"))) found += fmt::format(":{}", folder);
  }
  return found;
}

}  // namespace

std::string search_path() {
  std::string set = value_of("PATH");
  if (set.empty()) set = "/usr/local/bin:/usr/bin:/bin";
  std::string path;
  for (const std::string_view folder : split(set, ":")) {
    std::error_code ignored;
    if (!folder.empty()) path += (path.empty() ? "" : ":") + fs::absolute(folder, ignored).string();
  }
  return path;
}

std::vector<std::string> child_environment(const std::vector<std::string>& more) {
  std::vector<std::string> made = {"PATH=" + search_path(), "LC_ALL=C"};
  for (const std::string& variable : more) {
    std::erase_if(made, [&](const std::string& other) { return name_of(other) == name_of(variable); });
    made.push_back(variable);
  }
  const auto ours = static_cast<std::ptrdiff_t>(made.size());
  for (const std::string_view variable : variables()) {
    const std::string_view name = name_of(variable);
    if (std::ranges::find(left_out, name) == std::end(left_out) &&
        std::none_of(made.begin(), made.begin() + ours,
                     [&](const std::string& own) { return name_of(own) == name; }))
      made.emplace_back(variable);
  }
  return made;
}

std::string environment_identity() {
  std::string identity;
  for (const char* name : in_identity)
    if (const std::string value = value_of(name); !value.empty())
      identity += fmt::format("; {}={}", name, value);
  if (const std::string folders = folders_with_a_c_library(); !folders.empty())
    identity += fmt::format("; {}={}", libraries, folders.substr(1));
  return identity;
}

}  // namespace regard
