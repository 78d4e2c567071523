// What a build did, for callers and as manifest.json beside what was built.
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
  std::set<std::string> files;   ///< all that builds have made in the folder, by their names there
  double seconds = 0;            ///< in all
};

std::string to_json(const Manifest&, const Selection&, const std::vector<Built>&, const Report&);

}  // namespace regard::aot
