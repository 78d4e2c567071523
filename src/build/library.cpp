#include "build/library.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/folder.h"
#include "base/printable.h"
#include "base/whole_file.h"
#include "build/bundle_output.h"
#include "build/package.h"
#include "build/public_names.h"

namespace regard::build {
namespace {

constexpr Output kinds[] = {Output::shared, Output::archive};
constexpr const char* folder_for_linking = "link";

Package package_of(const Manifest& manifest, Output output) {
  return {.name_space = manifest.name_space, .shared = output == Output::shared};
}

/// Of what only a link needs; goes with the object.
class LinkFolder {
 public:
  explicit LinkFolder(const std::string& path) : path_(std::filesystem::absolute(path).string()) {}
  LinkFolder(const LinkFolder&) = delete;
  LinkFolder& operator=(const LinkFolder&) = delete;
  ~LinkFolder() { remove_all(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Status make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return invalid(fmt::format("cannot make {}: {}", in_quotes(path), error.message()));
  return {};
}

Status write_header(const Manifest& manifest, Folder& folder) {
  return write_whole_file(folder.path_of(header_file(manifest.name_space)),
                          header_in_namespace(public_header(), manifest.name_space));
}

}  // namespace

Result<std::vector<LibraryFile>> write_libraries(const Manifest& manifest, Folder& folder,
                                                 const Linker& linker) {
  const LinkFolder temporary(folder.path_of(folder_for_linking));
  for (const std::string& needed : {temporary.path(), folder.path_of("lib")})
    if (Status status = make_folder(needed); !status) return tl::unexpected(status.error());
  const Linker::Order order{manifest.name_space, temporary.path(), "../" + bundle_name(manifest)};
  const Result<std::string> object = linker.object(order);
  if (!object) return tl::unexpected(object.error());
  std::vector<LibraryFile> made;
  for (const Output output : kinds) {
    if (!manifest.wants(output)) continue;
    const Package package = package_of(manifest, output);
    const std::string library = folder.path_of(package.library());
    const Status linked =
        package.shared ? linker.shared(order, *object, library) : linker.archive(order, *object, library);
    if (!linked) return tl::unexpected(linked.error());
    for (const auto& [name, text] : package.files(linker.libraries()))
      if (Status status = write_whole_file(folder.path_of(name), text); !status)
        return tl::unexpected(status.error());
    made.push_back({output, library});
  }
  for (const auto& [name, text] : cmake_files(manifest.name_space))
    if (Status status = write_whole_file(folder.path_of(name), text); !status)
      return tl::unexpected(status.error());
  if (Status status = write_header(manifest, folder); !status) return tl::unexpected(status.error());
  return made;
}

std::vector<std::string> library_files(const Manifest& manifest) {
  if (manifest.name_space.empty()) return {};
  std::vector<std::string> names = {folder_for_linking, header_file(manifest.name_space)};
  for (const Output output : kinds) {
    const Package package = package_of(manifest, output);
    names.push_back(package.library());
    for (const auto& [name, text] : package.files({})) names.push_back(name);
  }
  for (const auto& [name, text] : cmake_files(manifest.name_space)) names.push_back(name);
  return names;
}

}  // namespace regard::build
