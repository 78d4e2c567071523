#include "compile/job_gate.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <semaphore>
#include <string>
#include <thread>

#include "base/fork_local.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/settings.h"

namespace regard {
namespace {

constexpr std::int64_t bytes_per_compile = 300'000'000;  // measured 50 MB with g++, 107 MB with clang++

/// Fresh in a forked child, where compiles of the parent's other threads do not go on.
struct Gate {
  const int jobs =
      compile_jobs(settings() ? settings()->compile_jobs : 0, usable_cores(), available_memory());
  std::counting_semaphore<> free{jobs};
};
ForkLocal<Gate>& process_gate = *new ForkLocal<Gate>;

using Clock = std::chrono::steady_clock;
constexpr auto poll_interval = std::chrono::milliseconds(5);

/// A slot of the machine is an address in the kernel's own name space of sockets: no file, and free again
/// when its holder ends, however that ends. False where there are no such addresses.
bool take(int number, OwnDescriptor& slot, bool& busy) {
  OwnDescriptor made(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!made) return false;
  const std::string name = fmt::format("regard-compile-{}-{}", geteuid(), number);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  busy = bind(made.number(), reinterpret_cast<const sockaddr*>(&address), length) != 0;
  if (busy) return errno == EADDRINUSE;
  slot = std::move(made);
  return true;
}

/// None `seconds` after the start: those who hold them have been stopped, as a compile takes no longer.
OwnDescriptor shared_slot(int jobs, Clock::time_point start, double seconds) {
  OwnDescriptor slot;
  for (bool told = false;;) {
    for (int number = 0; number < jobs; ++number) {
      bool busy = false;
      if (!take(number, slot, busy) || !busy) return slot;
    }
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    if (waited > seconds) return slot;
    if (!told && waited > 1) {
      told = true;
      tell("compile", fmt::format("waiting, as {} compiles at a time already run on this machine", jobs));
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

}  // namespace

int compile_jobs(std::int64_t asked, int cores, std::int64_t memory_bytes) {
  if (asked > 0) return static_cast<int>(std::min<std::int64_t>(asked, 4096));
  return static_cast<int>(std::clamp<std::int64_t>(memory_bytes / bytes_per_compile, 1, std::max(1, cores)));
}

CompileSlot::CompileSlot(double seconds) {
  Gate& gate = process_gate.get();
  const Clock::time_point start = Clock::now();
  own_ = gate.free.try_acquire_for(std::chrono::duration<double>(seconds));
  shared_ = shared_slot(gate.jobs, start, seconds);
}
CompileSlot::~CompileSlot() {
  if (own_) process_gate.get().free.release();
}

}  // namespace regard
