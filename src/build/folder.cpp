#include "build/folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "base/printable.h"
#include "base/settings.h"

namespace regard::build {
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
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return cannot(ErrorKind::invalid, error.message());
  Result<cache::Directory> kernels = cache::Directory::open_or_make(path + "/" + name_of_store);
  if (!kernels) {
    const ErrorKind kind = kernels.error().kind;
    return cannot(kind == ErrorKind::refused ? ErrorKind::invalid : kind, kernels.error().message);
  }
  std::unique_ptr<Folder> folder(new Folder(path, std::move(*kernels)));
  // A file system without locks has no holder.
  if (!folder->lock_.held() && !folder->lock_.holder().empty()) {
    return cannot(ErrorKind::refused, "another build is at it, " + folder->lock_.holder());
  }
  return folder;
}

}  // namespace regard::build
