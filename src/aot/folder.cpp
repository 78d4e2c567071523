#include "aot/folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "base/settings.h"
#include "base/text.h"

namespace regard::aot {
namespace {

constexpr const char* name_of_store = "kernels";
constexpr std::int64_t no_bound = std::numeric_limits<std::int64_t>::max();

}  // namespace

Folder::Folder(std::string path, cache::Directory kernels)
    : path_(std::move(path)),
      kernels_(std::move(kernels)),
      lock_(kernels_, "build.lock", 0),
      store_(path_of(name_of_store), no_bound, static_cast<double>(Settings().lock_seconds)) {}

Result<std::unique_ptr<Folder>> Folder::take(const std::string& path) {
  const auto cannot = [&](ErrorKind kind, std::string_view why) {
    return fail(kind, fmt::format("cannot build into {}: {}", in_quotes(path), why));
  };
  if (const int error = make_folders(path); error != 0)
    return cannot(kind_of(error, ErrorKind::invalid), std::strerror(error));
  const std::string store = path + "/" + name_of_store;
  if (std::error_code ignored; std::filesystem::is_symlink(store, ignored))
    return cannot(ErrorKind::invalid, in_quotes(store) + " is a link");
  Result<cache::Directory> kernels = cache::Directory::open_or_make(store);
  if (!kernels) {
    const ErrorKind kind = kernels.error().kind;
    return cannot(kind == ErrorKind::refused ? ErrorKind::invalid : kind, kernels.error().message);
  }
  std::unique_ptr<Folder> folder(new Folder(path, std::move(*kernels)));
  // A lock on a file system without locks has no holder.
  if (!folder->lock_.held() && !folder->lock_.holder().empty()) {
    return cannot(ErrorKind::refused, "another build is at it, " + folder->lock_.holder());
  }
  return folder;
}

Result<Folder::Staging> Folder::stage() const {
  // Nothing else uses what a killed build has left under this name: the folder is this build's alone.
  Staging staging(path_of(name_of_store) + "/.regard-outputs");
  remove_all(staging.path().c_str());
  if (mkdir(staging.path().c_str(), 0700) != 0) {
    return fail(kind_of(errno, ErrorKind::invalid),
                fmt::format("cannot make {}: {}", in_quotes(staging.path()), std::strerror(errno)));
  }
  return staging;
}

Folder::Staging::~Staging() {
  if (!path_.empty()) remove_all(path_.c_str());
}

}  // namespace regard::aot
