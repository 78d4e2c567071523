// NVRTC's shared library, opened at run time: where it is looked for, and the few functions that are used.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace regard {

/// NVRTC's handle; its type is internal to the library.
using NvrtcProgram = void*;

// X(result, name, parameters): the functions as declared in NVRTC's reference.
#define REGARD_NVRTC_FUNCTIONS(X)                                                                \
  X(int, nvrtcVersion, (int* major, int* minor))                                                 \
  X(const char*, nvrtcGetErrorString, (int result))                                              \
  X(int, nvrtcCreateProgram,                                                                     \
    (NvrtcProgram*, const char* source, const char* name, int headers, const char* const* texts, \
     const char* const* names))                                                                  \
  X(int, nvrtcDestroyProgram, (NvrtcProgram*))                                                   \
  X(int, nvrtcCompileProgram, (NvrtcProgram, int count, const char* const* options))             \
  X(int, nvrtcGetPTXSize, (NvrtcProgram, std::size_t*))                                          \
  X(int, nvrtcGetPTX, (NvrtcProgram, char*))                                                     \
  X(int, nvrtcGetCUBINSize, (NvrtcProgram, std::size_t*))                                        \
  X(int, nvrtcGetCUBIN, (NvrtcProgram, char*))                                                   \
  X(int, nvrtcGetProgramLogSize, (NvrtcProgram, std::size_t*))                                   \
  X(int, nvrtcGetProgramLog, (NvrtcProgram, char*))

struct NvrtcLibrary {
  std::string path;  ///< its location
#define REGARD_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  REGARD_NVRTC_FUNCTIONS(REGARD_MEMBER)
#undef REGARD_MEMBER
  /// Missing in older versions. It stops a compile in which `stop` returns 1.
  int (*nvrtcSetFlowCallback)(NvrtcProgram, int (*stop)(void* self, void*), void* self) = nullptr;
};

/// Where NVRTC is looked for, preferred ones first. A location is a file, or a folder that may contain one.
struct NvrtcLocation {
  std::string what;  ///< for messages: "REGARD_NVRTC", "the Python package nvidia-cuda-nvrtc", ...
  std::string path;  ///< empty: the system's loader decides
};

/// Only `setting` when it is not empty; else the wheel nvidia-cuda-nvrtc in any of `packages` (folders like
/// site-packages), CUDA_HOME (`cuda_home`, can be empty), and the system's loader.
std::vector<NvrtcLocation> nvrtc_locations(const std::string& setting, std::span<const std::string> packages,
                                           const std::string& cuda_home);

/// Sets where the Python that runs in this process has its packages; only the first call counts.
void name_package_folders(std::vector<std::string> folders);

/// Folders of Python packages that belong to this process: those of its Python, and the one that this library
/// is installed in as a package.
std::vector<std::string> package_folders();

/// The first that opens. It stays open for the life of the process. The error lists what was searched.
Result<NvrtcLibrary> open_nvrtc(std::span<const NvrtcLocation>);

}  // namespace regard
