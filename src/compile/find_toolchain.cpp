// The toolchain of each kind of target, found once per process.
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/interruption.h"
#include "base/process.h"
#include "base/process_lifetime.h"
#include "base/settings.h"
#include "compile/environment.h"
#include "compile/hip_clang.h"
#include "compile/hiprtc.h"
#include "compile/host_compiler.h"
#include "compile/nvcc.h"
#include "compile/nvrtc.h"
#include "compile/nvrtc_library.h"
#include "compile/package_folders.h"
#include "compile/toolchain.h"

namespace regard {
namespace {

using Found = Result<std::unique_ptr<Toolchain>>;

Found find_host(const Settings& current, CompilerMemory* memory) {
  return find_host_compiler(current.cxx, search_path(), compile_limit_seconds, memory);
}

/// NVRTC; or nvcc, which is slower, where there is no NVRTC and the setting names none.
Found find_cuda(const Settings& current, CompilerMemory* memory) {
  const char* const set = variable("CUDA_HOME");
  const std::string cuda_home = set != nullptr ? set : "";
  const Result<RtcLibrary> library = open_nvrtc(nvrtc_locations(current.nvrtc, package_folders(), cuda_home));
  if (library) return make_nvrtc(*library, memory);
  if (is_scarce(library)) return tl::unexpected(library.error());
  if (!current.nvrtc.empty()) return tl::unexpected(library.error());
  Found nvcc = find_nvcc(cuda_home, search_path(), memory);
  if (nvcc || is_scarce(nvcc)) return nvcc;
  return fail(ErrorKind::no_kernel, fmt::format("{}; {}", library.error().message, nvcc.error().message));
}

/// clang; or hiprtc, which cannot be stopped, where there is no clang and the settings name none.
Found find_hip(const Settings& current, CompilerMemory* memory) {
  const char* const set = variable("ROCM_PATH");
  const std::string rocm_path = set != nullptr ? set : "";
  std::string no_clang;
  if (current.hiprtc.empty() || !current.hip_clang.empty()) {
    Found clang =
        find_hip_clang({.setting = current.hip_clang, .rocm_path = rocm_path, .path = search_path()},
                       compile_limit_seconds, memory);
    if (clang || is_scarce(clang) || !current.hip_clang.empty()) return clang;
    no_clang = clang.error().message + "; ";
  }
  Found hiprtc = find_hiprtc(hiprtc_locations(current.hiprtc, package_folders(), rocm_path), memory);
  if (hiprtc || is_scarce(hiprtc)) return hiprtc;
  return fail(ErrorKind::no_kernel, no_clang + hiprtc.error().message);
}

/// Finding a toolchain runs or loads a compiler, which takes a while. A failure for lack of resources is not
/// kept.
struct Slot {
  std::timed_mutex mutex;
  std::optional<Found> found;
  std::vector<Found> replaced;  // others may still be compiling with them

  Result<Toolchain*> get(Found (*find)(const Settings&, CompilerMemory*), CompilerMemory* memory) {
    const Result<Settings>& current = settings();
    if (!current) return tl::unexpected(current.error());
    const auto lock = lock_unless_interrupted(mutex);
    if (!lock) return interruption();
    if (found && *found && !(**found)->is_current()) {
      replaced.push_back(std::move(*found));
      found.reset();
    }
    if (!found) found = find(*current, memory);
    if (*found) return (*found)->get();
    const Error error = found->error();
    if (is_scarce(*found)) found.reset();
    return tl::unexpected(error);
  }
};
struct Slots {
  Slot host, cuda, hip;
};
ForkLocal<Slots>& process_slots = *new ForkLocal<Slots>;

}  // namespace

Result<Toolchain*> toolchain_for(const Target& target, CompilerMemory* memory) {
  Slots& slots = process_slots.get();
  switch (target.kind) {
    case TargetKind::cpu:
      break;
    case TargetKind::cuda:
      return slots.cuda.get(find_cuda, memory);
    case TargetKind::hip:
      return slots.hip.get(find_hip, memory);
  }
  return slots.host.get(find_host, memory);
}

}  // namespace regard
