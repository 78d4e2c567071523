#include "aot/library.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "aot/bundle_output.h"
#include "aot/package.h"
#include "aot/public_names.h"
#include "base/atomic_file.h"
#include "base/files.h"
#include "base/result.h"
#include "base/text.h"

namespace regard::aot {
namespace {

constexpr Output kinds[] = {Output::shared, Output::archive};
Package package_of(const Manifest& manifest, Output output) {
  return {.name_space = manifest.name_space, .shared = output == Output::shared};
}

}  // namespace

Result<std::vector<LibraryFile>> write_libraries(const Manifest& manifest, const std::string& folder,
                                                 const Linker& linker) {
  const auto path_of = [&](const std::string& name) { return folder + "/" + name; };
  const std::string for_linking = path_of("link");
  for (const std::string& needed : {for_linking, path_of("lib")})
    if (const int error = make_folders(needed); error != 0)
      return fail(kind_of(error, ErrorKind::invalid),
                  fmt::format("cannot make {}: {}", in_quotes(needed), std::strerror(error)));
  const Linker::Order order{manifest.name_space, std::filesystem::absolute(for_linking).string(),
                            "../" + bundle_name(manifest)};
  const Result<std::string> object = linker.object(order);
  if (!object) return tl::unexpected(object.error());
  std::vector<LibraryFile> made;
  NamedTexts texts = cmake_files(manifest.name_space);
  texts.emplace_back(header_file(manifest.name_space),
                     header_in_namespace(public_header(), manifest.name_space));
  for (const Output output : kinds) {
    if (!manifest.wants(output)) continue;
    const Package package = package_of(manifest, output);
    const std::string library = path_of(package.library());
    const Status linked =
        package.shared ? linker.shared(order, *object, library) : linker.archive(order, *object, library);
    if (!linked) return tl::unexpected(linked.error());
    for (auto& text : package.files(linker.libraries())) texts.push_back(std::move(text));
    made.push_back({output, package.library()});
  }
  for (const auto& [name, text] : texts)
    if (Status status = write_atomic_file(path_of(name), text); !status)
      return tl::unexpected(status.error());
  return made;
}

std::vector<std::string> library_files(const Manifest& manifest) {
  if (!manifest.makes_library()) return {};
  std::vector<std::string> names = {header_file(manifest.name_space)};
  for (const Output output : kinds) {
    if (!manifest.wants(output)) continue;
    const Package package = package_of(manifest, output);
    names.push_back(package.library());
    for (const auto& [name, text] : package.files({})) names.push_back(name);
  }
  for (const auto& [name, text] : cmake_files(manifest.name_space)) names.push_back(name);
  return names;
}

}  // namespace regard::aot
