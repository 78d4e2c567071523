// What CMake and pkg-config need to know about a library that a build has made. All paths are relative to
// these files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace regard::aot {

using NamedTexts =
    std::vector<std::pair<std::string, std::string>>;  // names of files in the prefix, and texts

/// "include/te_regard.h"
std::string header_file(std::string_view name_space);

struct Package {
  std::string name_space;
  bool shared;

  /// "lib/libte_regard.so", "lib/libte_regard.a"
  std::string library() const;
  /// For this library alone: its CMake target and its pkg-config file. `libraries`: what a static library
  /// needs.
  NamedTexts files(const std::vector<std::string>& libraries) const;

 private:
  /// "te_regard", "te_regard_static"
  std::string name() const;
};

/// find_package(te_regard), which defines targets for the libraries that are installed.
NamedTexts cmake_files(std::string_view name_space);

}  // namespace regard::aot
