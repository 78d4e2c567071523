#include "cli/array_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/text.h"
#include "cli/failure.h"
#include "cli/file_bytes.h"
#include "cli/held_signals.h"
#include "cli/new_file.h"
#include "cli/npy.h"

namespace regard::cli {
namespace {

/// Files that get their names only when all of them have been written.
class NewFiles {
 public:
  void write(std::string path, const std::string& header, std::span<const OutputArray> arrays) {
    NewFile& file = files_.emplace_back(std::move(path));
    file.write(std::as_bytes(std::span(header)));
    for (const OutputArray& array : arrays) file.write(array.bytes);
  }
  std::vector<std::string> publish() {
    std::vector<std::string> paths;
    for (NewFile& file : files_) {
      file.publish();
      paths.push_back(file.path());
    }
    return paths;
  }

 private:
  const HeldSignals held_;  // until the files are removed, if they are
  std::vector<NewFile> files_;
};

bool ends_with(const std::string& path, std::string_view end) {
  return std::string_view(path).ends_with(end);
}

/// The tensors of a .safetensors file, whose elements are not read yet.
std::vector<NamedArray> read_names(FileBytes& file, const std::string& path) {
  file.read(file.all().first(std::min(file.all().size(), safetensors_length_bytes)));
  file.read(file.all().first(safetensors_beginning(file.all())));
  return value_of(read_safetensors(file.all()), path);
}

const ArrayView& readable(const NamedArray& named, const std::string& path) {
  if (named.unreadable.empty()) return named.array;
  fail_with(fmt::format("{}: {}: {}", printable(path), in_quotes(named.name), named.unreadable));
}

/// The role called `name`; '-' can be written for '_'.
std::optional<regard_role> role_called(std::string name) {
  std::ranges::replace(name, '-', '_');
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (name == regard_role_name(role)) return role;
  }
  return std::nullopt;
}

}  // namespace

LoadedArray load_array(const std::string& path, const std::string& name) {
  const bool npy = ends_with(path, ".npy");
  if (!npy && !ends_with(path, ".safetensors")) {
    fail_with(
        fmt::format("cannot tell the format of {}; it must end in .npy or .safetensors", printable(path)));
  }
  const auto file = std::make_shared<FileBytes>(path);
  if (npy) {
    file->read(file->all().first(std::min(file->all().size(), npy_beginning)));
    return {path, file, value_of(read_npy(file->all()), path)};
  }
  const std::vector<NamedArray> arrays = read_names(*file, path);
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  if (found == arrays.end() && arrays.size() != 1) {
    fail_with(fmt::format("{}: none of its {} tensors is called '{}'", printable(path), arrays.size(), name));
  }
  return {path, file, readable(found != arrays.end() ? *found : arrays.front(), path)};
}

LoadedFile load_roles(const std::string& path) {
  if (!ends_with(path, ".safetensors")) {
    fail_with(
        fmt::format("--in takes one .safetensors file, not {}; give .npy files as --q q.npy, --k k.npy, ...",
                    printable(path)));
  }
  const auto file = std::make_shared<FileBytes>(path);
  LoadedFile loaded;
  for (const NamedArray& each : read_names(*file, path)) {
    const std::optional<regard_role> role = role_called(each.name);
    if (!role) {
      loaded.others.push_back(each.name);
    } else if (!loaded.roles.emplace(*role, LoadedArray{path, file, readable(each, path)}).second) {
      fail_with(fmt::format("{}: {} is there twice, also as {}", printable(path), regard_role_name(*role),
                            in_quotes(each.name)));
    }
  }
  return loaded;
}

std::vector<std::string> save_arrays(const std::string& path, const std::vector<OutputArray>& arrays) {
  if (ends_with(path, ".npy") && arrays.size() != 1) {
    fail_with(
        fmt::format("{} can hold one array and there are {} results; name a folder or a .safetensors file",
                    printable(path), arrays.size()));
  }
  NewFiles files;
  if (ends_with(path, ".safetensors")) {
    std::vector<NamedArray> names;
    for (const OutputArray& array : arrays)
      names.push_back({array.name, {array.element, array.shape, {}}, ""});
    files.write(path, safetensors_header(names), arrays);
  } else if (ends_with(path, ".npy")) {
    files.write(path, npy_header(arrays[0].element, arrays[0].shape), arrays);
  } else {
    for (const OutputArray& array : arrays) {
      files.write((std::filesystem::path(path) / (array.name + ".npy")).string(),
                  npy_header(array.element, array.shape), {&array, 1});
    }
  }
  return files.publish();
}

}  // namespace regard::cli
