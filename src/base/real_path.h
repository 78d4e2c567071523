// The path of a file from the root, without links: what it means does not depend on the working folder.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

namespace regard {

/// The path as it was given where the system cannot tell.
inline std::string real_path(const std::string& path) {
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  const std::unique_ptr<char, Free> real(realpath(path.c_str(), nullptr));
  return real ? real.get() : path;
}

}  // namespace regard
