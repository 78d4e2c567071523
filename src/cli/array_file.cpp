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

#include "base/nearest.h"
#include "cli/failure.h"
#include "cli/npy.h"

namespace regard::cli {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail_at(const std::string& path, const char* doing) {
  fail_with(fmt::format("cannot {} {}: {}", doing, path, std::strerror(errno)));
}

std::shared_ptr<const std::vector<std::byte>> read_file(const std::string& path) {
  const int descriptor =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a FIFO's writer
  const File file(descriptor < 0 ? nullptr : fdopen(descriptor, "rb"));
  if (!file) fail_at(path, "read");
  struct stat about{};
  if (fstat(fileno(file.get()), &about) != 0) fail_at(path, "read");
  if (!S_ISREG(about.st_mode)) fail_with(fmt::format("cannot read {}: it is not a file", path));
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(about.st_size));
  if (!bytes->empty() && std::fread(bytes->data(), bytes->size(), 1, file.get()) != 1) {
    fail_with(fmt::format("cannot read {}: it ended early", path));
  }
  return bytes;
}

/// Written beside its place, then renamed into it.
void write_file(const std::string& path, const std::string& header, const std::vector<OutputArray>& arrays) {
  const std::string temporary = fmt::format("{}.{}.part", path, getpid());
  File file(std::fopen(temporary.c_str(), "wb"));
  if (!file) fail_at(path, "write");
  bool good = std::fwrite(header.data(), 1, header.size(), file.get()) == header.size();
  for (const OutputArray& array : arrays) {
    good = good && std::fwrite(array.bytes.data(), 1, array.bytes.size(), file.get()) == array.bytes.size();
  }
  good = std::fflush(file.get()) == 0 && good;
  file.reset();
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int why = errno;
  std::remove(temporary.c_str());
  errno = why;
  fail_at(path, "write");
}

bool ends_with(const std::string& path, std::string_view end) {
  return std::string_view(path).ends_with(end);
}

}  // namespace

LoadedArray load_array(const std::string& path, const std::string& name) {
  const bool npy = ends_with(path, ".npy");
  if (!npy && !ends_with(path, ".safetensors")) {
    fail_with(fmt::format("cannot tell the format of {}; it must end in .npy or .safetensors", path));
  }
  LoadedArray loaded{path, read_file(path), {}};
  if (npy) {
    loaded.array = value_of(read_npy(*loaded.file), path);
    return loaded;
  }
  const std::vector<NamedArray> arrays = value_of(read_safetensors(*loaded.file), path);
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  if (found == arrays.end() && arrays.size() != 1) {
    fail_with(fmt::format("{}: none of its {} tensors is called '{}'", path, arrays.size(), name));
  }
  loaded.array = found != arrays.end() ? found->array : arrays.front().array;
  return loaded;
}

std::map<regard_role, LoadedArray> load_roles(const std::string& path) {
  if (!ends_with(path, ".safetensors")) {
    fail_with(fmt::format(
        "--in takes one .safetensors file, not {}; give .npy files as --q q.npy, --k k.npy, ...", path));
  }
  const auto file = read_file(path);
  std::map<regard_role, LoadedArray> loaded;
  for (const NamedArray& each : value_of(read_safetensors(*file), path)) {
    loaded.emplace(role_called(each.name, path), LoadedArray{path, file, each.array});
  }
  return loaded;
}

std::vector<std::string> save_arrays(const std::string& path, const std::vector<OutputArray>& arrays) {
  if (ends_with(path, ".safetensors")) {
    std::vector<NamedArray> names;
    for (const OutputArray& array : arrays) names.push_back({array.name, {array.element, array.shape, {}}});
    write_file(path, safetensors_header(names), arrays);
    return {path};
  }
  if (ends_with(path, ".npy")) {
    if (arrays.size() != 1) {
      fail_with(
          fmt::format("{} can hold one array and there are {} results; name a folder or a .safetensors file",
                      path, arrays.size()));
    }
    write_file(path, npy_header(arrays[0].element, arrays[0].shape), arrays);
    return {path};
  }
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) fail_with(fmt::format("cannot write the folder {}: {}", path, failed.message()));
  std::vector<std::string> written;
  for (const OutputArray& array : arrays) {
    written.push_back((std::filesystem::path(path) / (array.name + ".npy")).string());
    write_file(written.back(), npy_header(array.element, array.shape), {array});
  }
  return written;
}

regard_role role_called(const std::string& name, const std::string& where) {
  std::string normal = name;
  std::ranges::replace(normal, '-', '_');
  std::vector<std::string_view> names;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (normal == regard_role_name(role)) return role;
    names.emplace_back(regard_role_name(role));
  }
  fail_with(fmt::format("{}: there is no tensor '{}'{}", where, name, suggestion(normal, names)));
}

}  // namespace regard::cli
