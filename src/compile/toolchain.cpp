#include "compile/toolchain.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "base/settings.h"
#include "compile/host_compiler.h"

namespace regard {

Result<Toolchain*> toolchain_for(const Target& target) {
  if (target.kind != TargetKind::cpu) {
    return fail(ErrorKind::no_kernel,
                fmt::format("kernels for {} cannot be compiled yet: there is no {} toolchain", target.name,
                            target.kind == TargetKind::cuda ? "CUDA (NVRTC)" : "HIP"));
  }
  static const Result<std::unique_ptr<Toolchain>> host = []() -> Result<std::unique_ptr<Toolchain>> {
    const Result<Settings>& current = settings();
    if (!current) return tl::unexpected(current.error());
    const char* path = std::getenv("PATH");
    return find_host_compiler(current->cxx, path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  }();
  if (!host) return tl::unexpected(host.error());
  return host->get();
}

}  // namespace regard
