#include "compile/job_gate.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "base/files.h"
#include "base/interruption.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/process.h"
#include "base/process_lifetime.h"
#include "base/settings.h"
#include "cache/cache.h"

namespace regard {
namespace {

constexpr std::int64_t bytes_per_compile = 300'000'000;  // measured 50 MB with g++, 107 MB with clang++

/// New in a forked child, where compiles of the parent's other threads do not continue.
struct Gate {
  const int jobs =
      compile_jobs(settings() ? settings()->compile_jobs : 0, usable_cores(), available_memory());
  std::counting_semaphore<> free{jobs};
};
ForkLocal<Gate>& process_gate = *new ForkLocal<Gate>;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds first_wait{5}, longest_wait{40};

/// Where this user's processes coordinate: a folder that only the user can write to, so that no one else
/// takes a slot.
std::optional<cache::Directory> meeting_folder() {
  const Result<Settings>& current = settings();
  std::vector<std::string> folders;
  // Used only if it exists and is ours: `sudo` may have left another user's.
  if (const char* runtime = variable("XDG_RUNTIME_DIR");
      runtime != nullptr && *runtime == '/' && cache::Directory::open(runtime))
    folders.push_back(runtime + std::string("/regard"));
  if (current && current->cache) folders.push_back(default_cache_directory());
  folders.push_back(folder_in_tmp());
  for (const std::string& folder : folders) {
    Result<cache::Directory> opened = cache::Directory::open_or_make(folder);
    if (opened && faccessat(opened->descriptor(), ".", W_OK, AT_EACCESS) == 0) return std::move(*opened);
  }
  return std::nullopt;
}

/// Machines can share the folder, in a home for instance, but not their cores.
std::string this_machine() {
  char name[256] = "";
  const Result<std::string> boot = read_file("/proc/sys/kernel/random/boot_id", sizeof name, Links::followed);
  if (boot && !boot->empty()) return *boot;
  gethostname(name, sizeof name - 1);
  return name;
}

/// A slot is the lock of a key that no entry has: what a killed process leaves is cleaned up with the cache's
/// other leftovers.
std::string slot_name(const std::string& machine, int number) {
  return sha256(fmt::format("place {} among the compiles of {}", number, machine)).hex() +
         std::string(cache::lock_suffix);
}

}  // namespace

int compile_jobs(std::int64_t asked, int cores, std::int64_t memory_bytes) {
  if (asked > 0) return static_cast<int>(std::min<std::int64_t>(asked, 4096));
  return static_cast<int>(std::clamp<std::int64_t>(memory_bytes / bytes_per_compile, 1, std::max(1, cores)));
}

CompileSlot::CompileSlot(double seconds) {
  Gate& gate = process_gate.get();
  const Clock::time_point start = Clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto at_once =
      std::min<std::chrono::duration<double>>(longest_wait, std::chrono::duration<double>(seconds));
  while (!own_ && waited() <= seconds && !interrupted()) {
    if (gate.free.try_acquire_for(at_once)) own_.reset(&gate.free);
  }
  folder_ = meeting_folder();
  if (!folder_) return;
  const std::string machine = this_machine();
  auto wait = first_wait;
  for (bool reported = false;; wait = std::min(2 * wait, longest_wait)) {
    for (int number = 0; number < gate.jobs; ++number) {
      shared_.emplace(*folder_, slot_name(machine, number), 0);
      const bool taken = !shared_->held() && !shared_->holder().empty();
      if (!taken) return;  // it is ours, or there are no locks here
    }
    // A process that holds a slot for longer than a compile can take has been stopped.
    if (waited() > seconds || interrupted()) return;
    if (!reported && waited() > 1) {
      reported = true;
      tell("compile",
           fmt::format("waiting, as {} compiles at a time already run on this machine", gate.jobs));
    }
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace regard
