// What a cache entry's manifest says, as resolve.cpp wrote it; whatever is odd there reads as empty.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compile/resources.h"

namespace regard {

/// As they stand in a manifest.
nlohmann::json resources_json(const Resources&);

struct Manifest {
  std::string kernel;     ///< the key's text
  std::string compiler;   ///< its identity
  std::string resources;  ///< gpu: JSON (compile/resources.h)

  explicit Manifest(const std::string& json);
};

}  // namespace regard
