#include "plan/sources.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/embedded.h"
#include "base/forever.h"
#include "plan/recipe.h"

namespace regard {

std::span<const std::string_view> kernel_stems() {
  return forever<[] {
    std::vector<std::string_view> list;
    for (const Recipe& recipe : recipes()) {
      for (std::string_view stem : stage_kernels(recipe)) {
        if (std::find(list.begin(), list.end(), stem) == list.end()) list.push_back(stem);
      }
    }
    return list;
  }>();
}

bool has_source(std::string_view folder, std::string_view stem) {
  // (folder, stem) of every kernel source; the set is filled once and only read afterwards.
  const auto& sources = forever<[] {
    std::set<std::pair<std::string_view, std::string_view>> found;
    for (const EmbeddedFile& file : embedded_files()) {
      constexpr std::string_view root = "kernels/";
      const std::size_t dot = file.path.find_last_of('.'), slash = file.path.find_last_of('/');
      if (!file.path.starts_with(root) || dot == std::string_view::npos || slash <= root.size()) continue;
      if (file.path.substr(dot) == ".h") continue;
      found.emplace(file.path.substr(root.size(), slash - root.size()),
                    file.path.substr(slash + 1, dot - slash - 1));
    }
    return found;
  }>();
  return sources.contains({folder, stem});
}

}  // namespace regard
