#include "compile/toolchain.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include "base/fork_local.h"
#include "base/settings.h"
#include "compile/host_compiler.h"

namespace regard {
namespace {

using Found = Result<std::unique_ptr<Toolchain>>;

Found find_host() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const char* path = std::getenv("PATH");
  return find_host_compiler(current->cxx, path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
}

/// Finding it runs the compiler, which takes a while.
struct Host {
  std::mutex mutex;
  std::optional<Found> found;
};
ForkLocal<Host>& process_host = *new ForkLocal<Host>;

}  // namespace

Result<Toolchain*> toolchain_for(const Target& target) {
  if (target.kind != TargetKind::cpu) {
    return fail(ErrorKind::no_kernel,
                fmt::format("kernels for {} cannot be compiled yet: there is no {} toolchain", target.name,
                            target.kind == TargetKind::cuda ? "CUDA (NVRTC)" : "HIP"));
  }
  Host& host = process_host.get();
  const std::lock_guard lock(host.mutex);
  if (!host.found) host.found = find_host();
  if (!*host.found) return tl::unexpected(host.found->error());
  return (*host.found)->get();
}

}  // namespace regard
