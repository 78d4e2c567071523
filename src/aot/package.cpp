#include "aot/package.h"

#include <fmt/format.h>

namespace regard::aot {
namespace {

// Has no effect in an executable; a shared library that contains the static one stays loaded, as Regard's
// threads may be running.
constexpr std::string_view stays_loaded = "-Wl,-z,nodelete";

std::string cmake_folder(std::string_view name_space) {
  return fmt::format("lib/cmake/{}_regard/", name_space);
}

}  // namespace

std::string header_file(std::string_view name_space) {
  return fmt::format("include/{}_regard.h", name_space);
}

std::string Package::library() const {
  return fmt::format("lib/lib{}_regard.{}", name_space, shared ? "so" : "a");
}

std::string Package::name() const {
  return fmt::format("{}_regard{}", name_space, shared ? "" : "_static");
}

NamedTexts Package::files(const std::vector<std::string>& libraries) const {
  const std::string file = library().substr(library().rfind('/') + 1);
  const std::string target = fmt::format("{}_regard::{}", name_space, name());
  std::string cmake = fmt::format(
      "add_library({0} {1} IMPORTED)\n"
      "set_target_properties({0} PROPERTIES IMPORTED_LOCATION \"${{CMAKE_CURRENT_LIST_DIR}}/../../{2}\"\n"
      "  INTERFACE_INCLUDE_DIRECTORIES \"${{CMAKE_CURRENT_LIST_DIR}}/../../../include\"",
      target, shared ? "SHARED" : "STATIC", file);
  cmake += shared ? fmt::format("\n  IMPORTED_SONAME {})\n", file)
                  : fmt::format("\n  INTERFACE_LINK_LIBRARIES \"{}\"\n  INTERFACE_LINK_OPTIONS \"{}\")\n",
                                fmt::join(libraries, ";"), stays_loaded);
  const std::string link = shared ? fmt::format("-l{}_regard", name_space)
                                  : fmt::format("-l:{} {} {}", file, fmt::join(libraries, " "), stays_loaded);
  return {{cmake_folder(name_space) + name() + "_target.cmake", cmake},
          {fmt::format("lib/pkgconfig/{}.pc", name()),
           fmt::format("prefix=${{pcfiledir}}/../..\n\n"
                       "Name: {}\n"
                       "Description: Fused multi-head attention, with the kernels of {}\n"
                       "Version: {}\n"
                       "Libs: -L${{prefix}}/lib {}\n"
                       "Cflags: -I${{prefix}}/include\n",
                       name(), name_space, REGARD_VERSION, link)}};
}

NamedTexts cmake_files(std::string_view name_space) {
  const std::string folder = cmake_folder(name_space);
  return {{fmt::format("{}{}_regard-config.cmake", folder, name_space),
           fmt::format("if(NOT TARGET {0}_regard::{0}_regard AND NOT TARGET {0}_regard::{0}_regard_static)\n"
                       "  file(GLOB targets_of_{0}_regard \"${{CMAKE_CURRENT_LIST_DIR}}/*_target.cmake\")\n"
                       "  foreach(target_of_{0}_regard ${{targets_of_{0}_regard}})\n"
                       "    include(\"${{target_of_{0}_regard}}\")\n"
                       "  endforeach()\n"
                       "endif()\n",
                       name_space)},
          {fmt::format("{}{}_regard-config-version.cmake", folder, name_space),
           fmt::format(
               "set(PACKAGE_VERSION {0})\n"
               "if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n"
               "  set(PACKAGE_VERSION_EXACT TRUE)\n"
               "endif()\n"
               "string(REGEX MATCH \"^[0-9]+\" major \"${{PACKAGE_VERSION}}\")\n"
               "if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION AND PACKAGE_FIND_VERSION_MAJOR "
               "EQUAL major)\n"
               "  set(PACKAGE_VERSION_COMPATIBLE TRUE)\n"
               "endif()\n",
               REGARD_VERSION)}};
}

}  // namespace regard::aot
