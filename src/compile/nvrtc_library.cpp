#include "compile/nvrtc_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/files.h"
#include "base/process_lifetime.h"
#include "base/result.h"
#include "base/shared_object.h"
#include "base/text.h"
#include "compile/nvrtc_use.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

/// The newest version first; a library with another number may have other functions.
constexpr std::string_view sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

constinit std::atomic<const std::vector<std::string>*> of_python{nullptr};

std::string last_error() {
  const char* text = dlerror();
  return text != nullptr ? printable(text) : "unknown error";
}

/// It stays open forever.
Result<void*> open_library(const std::string& path) {
  const bool is_searched = path.find('/') == std::string::npos;
  if (const Status file = is_searched ? Status() : check_shared_object(path); !file) {
    return fail(is_scarce(file) ? ErrorKind::no_memory : ErrorKind::no_kernel,
                fmt::format("{}: {}", printable(path), file.error().message));
  }
  if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  std::string why = last_error();
  return fail(says_scarce(why) ? ErrorKind::no_memory : ErrorKind::no_kernel, std::move(why));
}

/// NVRTC opens its builtins by name only, which the loader does not find outside its own folders. A library
/// of that name that is already open is found.
Status open_builtins(const fs::path& folder) {
  for (const std::string& name : names_in(folder.string())) {
    if (!name.starts_with("libnvrtc-builtins.so")) continue;
    if (const Result<void*> opened = open_library(folder / name); !opened)
      return tl::unexpected(opened.error());
  }
  return {};
}

/// The file that a function was loaded from.
std::string file_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

Result<NvrtcLibrary> open(const std::string& path) {
  const NvrtcUse use;
  if (path.find('/') != std::string::npos) {
    if (Status builtins = open_builtins(fs::path(path).parent_path()); !builtins) {
      return tl::unexpected(builtins.error());
    }
  }
  wait_for_nvrtc_at_exit();  // for the loader, which runs before NVRTC creates its first objects
  const Result<void*> opened = open_library(path);
  if (!opened) return tl::unexpected(opened.error());
  wait_for_nvrtc_at_exit();
  void* const handle = *opened;
  NvrtcLibrary library;
#define REGARD_FIND(result, name, parameters)                                  \
  library.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name)); \
  if (library.name == nullptr)                                                 \
    return fail(ErrorKind::no_kernel, fmt::format("{} has no function " #name, in_quotes(path)));
  REGARD_NVRTC_FUNCTIONS(REGARD_FIND)
#undef REGARD_FIND
  library.nvrtcSetFlowCallback =
      reinterpret_cast<decltype(library.nvrtcSetFlowCallback)>(dlsym(handle, "nvrtcSetFlowCallback"));
  library.path = file_of(reinterpret_cast<const void*>(library.nvrtcVersion));
  return library;
}

/// The files at a location that could be NVRTC.
std::vector<std::string> files_of(const NvrtcLocation& location) {
  std::vector<std::string> files;
  std::error_code ignored;
  if (location.path.empty()) {
    files.assign(std::begin(sonames), std::end(sonames));
  } else if (!fs::is_directory(location.path, ignored)) {
    files.push_back(location.path);
  } else {
    for (const std::string_view name : sonames) {
      const fs::path file = fs::path(location.path) / name;
      if (fs::exists(file, ignored)) files.push_back(file.string());
    }
  }
  return files;
}

}  // namespace

std::vector<NvrtcLocation> nvrtc_locations(const std::string& setting, std::span<const std::string> packages,
                                           const std::string& cuda_home) {
  if (!setting.empty()) return {{"REGARD_NVRTC", setting}};
  std::vector<NvrtcLocation> locations;
  for (const std::string& folder : packages) {
    for (const std::string_view inside : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) {
      locations.push_back({"the Python package nvidia-cuda-nvrtc", fmt::format("{}/{}", folder, inside)});
    }
  }
  if (!cuda_home.empty()) {
    for (const std::string_view inside : {"lib64", "lib"}) {
      locations.push_back({"CUDA_HOME", fmt::format("{}/{}", cuda_home, inside)});
    }
  }
  locations.push_back({"the system's loader", ""});
  return locations;
}

void name_package_folders(std::vector<std::string> folders) {
  publish(of_python, std::make_unique<const std::vector<std::string>>(std::move(folders)));
}

std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  if (const auto* named = of_python.load(std::memory_order_acquire)) folders = *named;
  const std::string self = file_of(reinterpret_cast<const void*>(&package_folders));
  if (self.empty()) return folders;
  std::string own = fs::absolute(self).parent_path().parent_path().string();
  if (std::ranges::find(folders, own) == folders.end()) folders.push_back(std::move(own));
  return folders;
}

Result<NvrtcLibrary> open_nvrtc(std::span<const NvrtcLocation> locations) {
  std::string searched;
  for (const NvrtcLocation& location : locations) {
    const std::vector<std::string> files = files_of(location);
    std::string why = "none there";
    for (const std::string& file : files) {
      Result<NvrtcLibrary> library = open(file);
      if (library) return library;
      if (is_scarce(library)) return library;
      why = library.error().message;
    }
    searched += fmt::format("{}{}{} ({})", searched.empty() ? "" : "; ", location.what,
                            location.path.empty() ? "" : " " + in_quotes(location.path), why);
  }
  return fail(ErrorKind::no_kernel,
              fmt::format("no NVRTC (CUDA's run-time compiler); searched {}; install it with 'pip install "
                          "nvidia-cuda-nvrtc', or set CUDA_HOME to a CUDA toolkit or REGARD_NVRTC to "
                          "libnvrtc.so.13",
                          searched));
}

}  // namespace regard
