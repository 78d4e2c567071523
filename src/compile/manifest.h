// The contents of a cache entry's manifest, as kernel_entry.cpp wrote it; anything unexpected reads as empty.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compile/resources.h"

namespace regard {

/// As they are written in a manifest: JSON.
std::string resources_json(const Resources&);

struct Manifest {
  std::string kernel;                  ///< the key's text
  std::string compiler;                ///< its identity
  std::optional<Resources> resources;  ///< of a GPU's kernel
  double compile_seconds = 0;

  Manifest() = default;
  explicit Manifest(std::string_view json);
};

}  // namespace regard
