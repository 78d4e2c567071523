// What a build did, for callers and as manifest.json next to the outputs.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "aot/compile_all.h"
#include "aot/manifest.h"
#include "base/digest.h"

namespace regard::aot {

struct Report {
  struct Written {
    Output output;
    std::string path;
    std::uint64_t bytes;
    Digest sum;
  };
  std::string folder;
  std::vector<Written> outputs;  ///< none where a kernel failed
  std::set<std::string> files;   ///< everything that builds have made in the folder, by name
  double seconds = 0;            ///< in all
};

std::string to_json(const Manifest&, const Selection&, const std::vector<Built>&, const Report&);

}  // namespace regard::aot
