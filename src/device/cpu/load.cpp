// Loads a shared object from bytes in memory.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/settings.h"
#include "base/shared_object.h"
#include "base/temporary.h"
#include "base/text.h"
#include "device/cpu/cpu.h"

namespace regard::cpu {
namespace {

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

class LoadedModule final : public Module {
 public:
  LoadedModule(Library library, KernelFunction function)
      : library_(std::move(library)), function_(function) {}
  KernelFunction function() const override { return function_; }

 private:
  Library library_;
  KernelFunction function_;
};

// libc takes equal paths for the same library, and descriptor numbers are reused: a module loaded earlier
// through the same number would be returned instead, even one of another copy of Regard in this process. So
// each path contains the file's inode number, which no loaded file shares.
std::string unique_path(int file, ino_t inode) {
  std::string path = "/proc/self/fd/";
  for (ino_t bits = inode; bits != 0; bits >>= 1) path += (bits & 1) != 0 ? ".//" : "./";
  return path + std::to_string(file);
}

void* open_sealed_memory(std::span<const std::byte> binary, const std::string& symbol, std::string& error) {
  const Descriptor memory(memfd_create(symbol.substr(0, 200).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = memory.number();
  void* handle = nullptr;
  struct stat status{};
  if (file < 0 || !write_all(file, binary) ||
      fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
      fstat(file, &status) != 0) {
    error = std::string("a file in memory: ") + std::strerror(errno);
  } else {
    handle = dlopen(unique_path(file, status.st_ino).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) error = printable(dlerror());
  }
  return handle;
}

/// Opens a new file. It is removed at once or, with `kept_as`, is renamed to that first and stays.
void* open_file(const std::string& stem, const char* kept_as, std::span<const std::byte> binary,
                std::string& error) {
  std::string path = stem + "XXXXXX";
  const Descriptor file(mkostemp(path.data(), O_CLOEXEC));  // mode 0600, a name that did not exist
  if (file) mark_in_use(file.number());
  void* handle = nullptr;
  if (!file || !write_all(file.number(), binary) ||
      (kept_as != nullptr && rename(path.c_str(), kept_as) != 0)) {
    error += "a temporary file " + in_quotes(path) + ": " + std::strerror(errno);
  } else {
    handle = dlopen(kept_as != nullptr ? kept_as : path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) error += printable(dlerror());
  }
  if (file) unlink(path.c_str());
  return handle;
}

/// For machines whose policy forbids executing files in memory.
void* open_temporary_file(std::span<const std::byte> binary, std::string& error) {
  error += "; ";
  return open_file(temporary_folder() + "/" + std::string(temporary_prefix), nullptr, binary, error);
}

/// Profilers and debuggers read symbols from the mapped file. Its name depends on its contents, because libc
/// takes two files of the same path for the same library.
void* open_symbol_file(std::span<const std::byte> binary, const std::string& symbol) {
  const Result<Settings>& current = settings();
  if (!current || current->symbol_dir.empty()) return nullptr;
  const std::string& folder = current->symbol_dir;
  const std::string path = folder + "/" + symbol + "-" + sha256(binary).hex().substr(0, 16) + ".so";
  std::string error;
  make_folders(folder);
  void* const handle = open_file(path + ".", path.c_str(), binary, error);
  if (handle == nullptr) warn_once("REGARD_SYMBOL_DIR is not used: " + error);
  return handle;
}

}  // namespace

Result<std::shared_ptr<Module>> load(std::span<const std::byte> binary, const std::string& symbol) {
  if (const char* why = shared_object_defect(binary)) {
    return fail(ErrorKind::no_kernel, "the binary of kernel '" + symbol + "' cannot be loaded: " + why);
  }
  std::string error;
  Library library(open_symbol_file(binary, symbol));
  if (!library) library.reset(open_sealed_memory(binary, symbol, error));
  if (!library) library.reset(open_temporary_file(binary, error));
  if (!library) {
    return fail(says_scarce(error) ? ErrorKind::no_memory : ErrorKind::no_kernel,
                "the binary of kernel '" + symbol + "' cannot be loaded: " + error);
  }
  void* const address = dlsym(library.get(), symbol.c_str());
  if (address == nullptr) {
    return fail(ErrorKind::no_kernel, "the binary of kernel '" + symbol + "' has no symbol of that name");
  }
  return std::make_shared<LoadedModule>(std::move(library), reinterpret_cast<KernelFunction>(address));
}

}  // namespace regard::cpu
