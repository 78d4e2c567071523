#include "base/folder.h"

#include <dirent.h>
#include <ftw.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

namespace regard {
namespace {
struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
}  // namespace

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> open(opendir(folder.c_str()));
  if (!open) return names;
  while (const dirent* item = readdir(open.get())) {
    const std::string_view name = item->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

void remove_all(const char* path) noexcept {
  if (unlink(path) == 0 || (errno != EISDIR && errno != EPERM)) return;
  constexpr int descriptors = 8;
  const auto remove_one = [](const char* one, const struct stat*, int, FTW*) { return std::remove(one), 0; };
  nftw(path, remove_one, descriptors, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

}  // namespace regard
