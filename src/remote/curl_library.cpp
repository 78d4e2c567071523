#include "remote/curl_library.h"

#include <dlfcn.h>

#include <mutex>
#include <string>

#include "base/process_lifetime.h"
#include "base/result.h"
#include "base/text.h"

namespace regard::remote {
namespace {

/// The distributions' names for the same interface: with OpenSSL, and with GnuTLS.
constexpr const char* sonames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

/// The first transfer initialises state that all transfers share, which old versions do not guard.
ForkLocal<std::mutex>& first_use = *new ForkLocal<std::mutex>;

/// The loader does not say why it could not map a file.
bool for_lack_of_memory(const std::string& why) {
  return says_scarce(why) || why.find("failed to map segment") != std::string::npos;
}

Result<CurlLibrary> open() {
  const std::lock_guard lock(first_use.get());
  std::string why;
  for (const char* soname : sonames) {
    void* const handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* const said = dlerror();
      if (why.empty() && said != nullptr) why = printable(said);
      if (for_lack_of_memory(why)) return fail(ErrorKind::no_memory, "libcurl cannot be opened: " + why);
      continue;
    }
    CurlLibrary library;
#define REGARD_FIND(result, name, parameters)                                          \
  library.name = reinterpret_cast<result(*) parameters>(dlsym(handle, "curl_" #name)); \
  if (library.name == nullptr) return invalid(std::string(soname) + " has no function curl_" #name);
    REGARD_CURL_FUNCTIONS(REGARD_FIND)
#undef REGARD_FIND
    if (library.global_init(curl::global_default) != curl::ok)
      return fail(ErrorKind::no_memory, "libcurl does not start");
    return library;
  }
  return invalid("it takes libcurl, which cannot be opened (" + why +
                 "); install it (libcurl4 on Debian and Ubuntu, libcurl elsewhere)");
}

}  // namespace

Result<const CurlLibrary*> curl_library() {
  const Result<CurlLibrary>& library = process_lifetime_unless_scarce<open>();
  if (!library) return tl::unexpected(library.error());
  return &*library;
}

}  // namespace regard::remote
