#include "compile/rtc_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/shared_object.h"
#include "base/text.h"
#include "compile/rtc_use.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

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

/// A compiler may open its other libraries by name only, which the loader does not find outside its own
/// folders. A library of that name that is already open is found.
Status open_others(const fs::path& folder, std::string_view names) {
  for (const std::string& name : names_in(folder.string())) {
    if (!name.starts_with(names)) continue;
    if (const Result<void*> opened = open_library(folder / name); !opened)
      return tl::unexpected(opened.error());
  }
  return {};
}

/// Functions of an opened library.
class Symbols {
 public:
  Symbols(void* library, const RtcMake& make) : library_(library), make_(make) {}

  template <class Function>
  void find(Function& function, std::string_view name) {
    const std::string symbol = fmt::format("{}{}", make_.prefix, name);
    function = reinterpret_cast<Function>(dlsym(library_, symbol.c_str()));
    if (function == nullptr && missing_.empty()) missing_ = symbol;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  const RtcMake& make_;
  std::string missing_;  ///< the first
};

Result<RtcLibrary> open(const RtcMake& make, const std::string& path) {
  const RtcUse use;
  if (path.find('/') != std::string::npos && !make.before.empty()) {
    if (Status others = open_others(fs::path(path).parent_path(), make.before); !others)
      return tl::unexpected(others.error());
  }
  wait_for_rtc_at_exit();  // for the loader, which runs before the compiler creates its first objects
  const Result<void*> opened = open_library(path);
  if (!opened) return tl::unexpected(opened.error());
  wait_for_rtc_at_exit();
  Symbols needed(*opened, make), optional(*opened, make);
  RtcLibrary library;
#define REGARD_FIND(result, name, symbol, parameters) needed.find(library.name, #symbol);
  REGARD_RTC_FUNCTIONS(REGARD_FIND)
#undef REGARD_FIND
  needed.find(library.code, fmt::format("Get{}", make.code));
  needed.find(library.code_size, fmt::format("Get{}Size", make.code));
  if (!needed.missing().empty())
    return fail(ErrorKind::no_kernel,
                fmt::format("{} has no function {}", in_quotes(path), needed.missing()));
  optional.find(library.ptx_size, "GetPTXSize");
  optional.find(library.ptx, "GetPTX");
  optional.find(library.set_callback, "SetFlowCallback");
  library.path = file_of(reinterpret_cast<const void*>(library.create));
  return library;
}

/// The files at a location that could be the compiler.
std::vector<std::string> files_of(const RtcMake& make, const RtcLocation& location) {
  std::vector<std::string> files;
  std::error_code ignored;
  if (location.path.empty()) {
    files.assign(make.sonames.begin(), make.sonames.end());
  } else if (!fs::is_directory(location.path, ignored)) {
    files.push_back(location.path);
  } else {
    for (const std::string_view name : make.sonames) {
      const fs::path file = fs::path(location.path) / name;
      if (fs::exists(file, ignored)) files.push_back(file.string());
    }
  }
  return files;
}

}  // namespace

std::string file_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

Result<RtcLibrary> open_rtc(const RtcMake& make, std::span<const RtcLocation> locations) {
  std::string searched;
  for (const RtcLocation& location : locations) {
    std::string why = "none there";
    for (const std::string& file : files_of(make, location)) {
      Result<RtcLibrary> library = open(make, file);
      if (library || is_scarce(library)) return library;
      why = library.error().message;
    }
    searched += fmt::format("{}{}{} ({})", searched.empty() ? "" : "; ", location.what,
                            location.path.empty() ? "" : " " + in_quotes(location.path), why);
  }
  return fail(ErrorKind::no_kernel, std::move(searched));
}

}  // namespace regard
