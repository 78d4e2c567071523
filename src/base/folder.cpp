#include "base/folder.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/scarce.h"

namespace regard {
namespace {
struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
}  // namespace

Result<std::vector<std::string>> read_names(const std::string& folder) {
  const auto cannot = [](int error) {
    return fail(kind_of(error, ErrorKind::invalid),
                std::string("it cannot be read: ") + std::strerror(error));
  };
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> open(opendir(folder.c_str()));
  if (!open) return cannot(errno);
  while (true) {
    errno = 0;  // what readdir gives at the end does not differ from what it gives where it fails
    const dirent* const item = readdir(open.get());
    if (item == nullptr && errno != 0) return cannot(errno);
    if (item == nullptr) return names;
    const std::string_view name = item->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  return read_names(folder).value_or(std::vector<std::string>());
}

int make_folders(const std::string& folder) {
  struct stat status;
  for (std::size_t end = 0; end < folder.size();) {
    end = std::min(folder.find('/', end + 1), folder.size());
    const std::string part = folder.substr(0, end);
    if (stat(part.c_str(), &status) == 0) {
      if (!S_ISDIR(status.st_mode)) return ENOTDIR;
    } else if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      return errno;
    }
  }
  return 0;
}

void remove_all(const char* path) noexcept {
  if (unlink(path) == 0 || (errno != EISDIR && errno != EPERM)) return;
  constexpr int descriptors = 8;
  const auto remove_one = [](const char* one, const struct stat*, int, FTW*) { return std::remove(one), 0; };
  nftw(path, remove_one, descriptors, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

}  // namespace regard
