// The shared library of a run-time compiler, opened at run time: NVIDIA's (NVRTC) or AMD's (hiprtc), whose
// functions differ in their names only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace regard {

/// The library's handle of a program; what it points to is internal to the library.
using RtcHandle = void*;

// X(result, name, symbol, parameters): the few functions that are used, as declared in the vendors'
// references. A symbol begins with "nvrtc" or "hiprtc".
#define REGARD_RTC_FUNCTIONS(X)                                                               \
  X(const char*, error_text, GetErrorString, (int result))                                    \
  X(int, create, CreateProgram,                                                               \
    (RtcHandle*, const char* source, const char* name, int headers, const char* const* texts, \
     const char* const* names))                                                               \
  X(int, destroy, DestroyProgram, (RtcHandle*))                                               \
  X(int, compile, CompileProgram, (RtcHandle, int count, const char* const* options))         \
  X(int, log_size, GetProgramLogSize, (RtcHandle, std::size_t*))                              \
  X(int, log, GetProgramLog, (RtcHandle, char*))

/// What distinguishes the two compilers.
struct RtcMake {
  std::string_view name;    ///< for messages: "NVRTC"
  std::string_view prefix;  ///< of its functions
  std::string_view code;    ///< what its functions call machine code
  /// The newest version first; a library with another number may have other functions.
  std::span<const std::string_view> sonames;
  /// Other libraries of its folder whose names begin with this are opened first; empty: none.
  std::string_view before = "";
};

struct RtcLibrary {
  std::string path;  ///< its location
#define REGARD_MEMBER(result, name, symbol, parameters) result(*name) parameters = nullptr;
  REGARD_RTC_FUNCTIONS(REGARD_MEMBER)
#undef REGARD_MEMBER
  int (*code_size)(RtcHandle, std::size_t*) = nullptr;
  int (*code)(RtcHandle, char*) = nullptr;
  // Only NVRTC has these; null for hiprtc.
  int (*ptx_size)(RtcHandle, std::size_t*) = nullptr;
  int (*ptx)(RtcHandle, char*) = nullptr;
  /// Missing in older versions, too. It stops a compile in which `stop` returns 1.
  int (*set_callback)(RtcHandle, int (*stop)(void* self, void*), void* self) = nullptr;
};

/// Where a compiler is looked for. A location is a file, or a folder that may contain one.
struct RtcLocation {
  std::string what;  ///< for messages: "REGARD_NVRTC", "the Python package nvidia-cuda-nvrtc", ...
  std::string path;  ///< empty: the system's loader decides
};

/// The first that opens. It stays open for the life of the process. The error lists what was searched:
/// "CUDA_HOME '/usr/local/cuda/lib64' (none there); the system's loader (...)".
Result<RtcLibrary> open_rtc(const RtcMake&, std::span<const RtcLocation>);

/// The file that a function was loaded from.
std::string file_of(const void* function);

}  // namespace regard
