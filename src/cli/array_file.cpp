#include "cli/array_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/printable.h"
#include "cli/failure.h"
#include "cli/held_signals.h"
#include "cli/new_file.h"
#include "cli/npy.h"

namespace regard::cli {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail_to_read(const std::string& path) {
  fail_with(fmt::format("cannot read {}: {}", printable(path), std::strerror(errno)));
}

std::shared_ptr<const std::vector<std::byte>> read_file(const std::string& path) {
  const int descriptor =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a FIFO's writer
  const File file(descriptor < 0 ? nullptr : fdopen(descriptor, "rb"));
  if (!file) fail_to_read(path);
  struct stat about{};
  if (fstat(fileno(file.get()), &about) != 0) fail_to_read(path);
  if (!S_ISREG(about.st_mode)) fail_with(fmt::format("cannot read {}: it is not a file", printable(path)));
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(about.st_size));
  if (!bytes->empty() && std::fread(bytes->data(), bytes->size(), 1, file.get()) != 1) {
    if (std::ferror(file.get()) != 0) fail_to_read(path);
    fail_with(fmt::format("cannot read {}: it ended early", printable(path)));
  }
  return bytes;
}

/// Files on their way to their names: they get them when all have been written.
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
  const HeldSignals held_;  // until the files have gone, if they go
  std::vector<NewFile> files_;
};

bool ends_with(const std::string& path, std::string_view end) {
  return std::string_view(path).ends_with(end);
}

const ArrayView& readable(const NamedArray& named, const std::string& path) {
  if (named.unreadable.empty()) return named.array;
  fail_with(fmt::format("{}: {}: {}", printable(path), in_quotes(named.name), named.unreadable));
}

/// The role called `name`; '-' may stand for '_'.
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
  LoadedArray loaded{path, read_file(path), {}};
  if (npy) {
    loaded.array = value_of(read_npy(*loaded.file), path);
    return loaded;
  }
  const std::vector<NamedArray> arrays = value_of(read_safetensors(*loaded.file), path);
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  if (found == arrays.end() && arrays.size() != 1) {
    fail_with(fmt::format("{}: none of its {} tensors is called '{}'", printable(path), arrays.size(), name));
  }
  loaded.array = readable(found != arrays.end() ? *found : arrays.front(), path);
  return loaded;
}

LoadedFile load_roles(const std::string& path) {
  if (!ends_with(path, ".safetensors")) {
    fail_with(
        fmt::format("--in takes one .safetensors file, not {}; give .npy files as --q q.npy, --k k.npy, ...",
                    printable(path)));
  }
  const auto file = read_file(path);
  LoadedFile loaded;
  for (const NamedArray& each : value_of(read_safetensors(*file), path)) {
    const std::optional<regard_role> role = role_called(each.name);
    if (!role) {
      loaded.others.push_back(each.name);
    } else if (!loaded.roles.emplace(*role, LoadedArray{path, file, readable(each, path)}).second) {
      fail_with(fmt::format("{}: {} is there twice, as {} too", printable(path), regard_role_name(*role),
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
