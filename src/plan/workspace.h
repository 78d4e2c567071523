// The contents of a call's workspace: consecutive parts, each at a multiple of 64 bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace regard {

struct WorkspaceLayout {
  struct Part {
    std::string_view name;
    std::int64_t bytes = 0, offset = 0;
  };

  static constexpr int none = -1;

  std::vector<Part> parts;
  std::int64_t total = 0;

  /// Adds a part, or none where it has no bytes.
  int add(std::string_view name, std::int64_t bytes) {
    if (bytes == 0) return none;
    parts.push_back({name, bytes});
    return static_cast<int>(parts.size()) - 1;
  }
  /// Assigns an offset to each part. Sizes that do not fit in 64 bits are refused.
  Status lay_out();

  void* at(int part, void* workspace) const {
    return part == none ? nullptr
                        : static_cast<char*>(workspace) + parts[static_cast<std::size_t>(part)].offset;
  }
  /// 0 where there is no part of this name.
  std::int64_t bytes_of(std::string_view name) const {
    for (const Part& part : parts)
      if (part.name == name) return part.bytes;
    return 0;
  }
};

}  // namespace regard
