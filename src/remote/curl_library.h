// libcurl, opened when it is first needed: nothing is linked with it, and most programs never need it.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace regard::remote {

/// Reports a finished transfer. The layout is libcurl's.
struct CurlMessage {
  int message;
  void* easy;
  union {
    void* anything;
    int code;
  };
};

// X(result, name without curl_, parameters)
#define REGARD_CURL_FUNCTIONS(X)                                       \
  X(int, global_init, (long))                                          \
  X(void*, easy_init, ())                                              \
  X(void, easy_cleanup, (void*))                                       \
  X(int, easy_setopt, (void*, int, ...))                               \
  X(int, easy_getinfo, (void*, int, ...))                              \
  X(const char*, easy_strerror, (int))                                 \
  X(void*, multi_init, ())                                             \
  X(int, multi_cleanup, (void*))                                       \
  X(int, multi_add_handle, (void*, void*))                             \
  X(int, multi_remove_handle, (void*, void*))                          \
  X(int, multi_perform, (void*, int*))                                 \
  X(int, multi_wait, (void*, void*, unsigned, int milliseconds, int*)) \
  X(CurlMessage*, multi_info_read, (void*, int*))                      \
  X(void*, slist_append, (void*, const char*))                         \
  X(void, slist_free_all, (void*))

struct CurlLibrary {
#define REGARD_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  REGARD_CURL_FUNCTIONS(REGARD_MEMBER)
#undef REGARD_MEMBER
};

/// libcurl's constants, which do not change between versions.
namespace curl {
enum Option : int {
  failonerror = 45,
  upload = 46,
  netrc = 51,
  ssl_verifypeer = 64,
  ssl_verifyhost = 81,
  nosignal = 99,
  timeout_ms = 155,
  connecttimeout_ms = 156,
  quick_exit = 322,
  writedata = 10001,
  url = 10002,
  readdata = 10009,
  errorbuffer = 10010,
  useragent = 10018,
  httpheader = 10023,
  cainfo = 10065,
  writefunction = 20011,
  readfunction = 20012,
  infilesize_large = 30115,
  maxfilesize_large = 30117,
};
enum Info : int { redirect_url = 0x10001f, response_code = 0x200002, os_errno = 0x200019 };
enum Code : int {
  ok = 0,
  couldnt_connect = 7,
  http_returned_error = 22,
  out_of_memory = 27,
  operation_timedout = 28,
  filesize_exceeded = 63,
};
inline constexpr long global_default = 3;
inline constexpr long netrc_optional = 1;
inline constexpr std::size_t error_size = 256;
}  // namespace curl

/// It stays open forever. Error: one sentence, where none is installed.
Result<const CurlLibrary*> curl_library();

}  // namespace regard::remote
