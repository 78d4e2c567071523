#include "cache/lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <span>
#include <thread>

#include "base/files.h"
#include "base/interruption.h"
#include "base/log.h"
#include "base/text.h"

namespace regard::cache {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto poll_interval = std::chrono::milliseconds(10);

enum class Attempt { held, busy, stale, impossible };

// A holder removes the file before it releases it. A process that had it open by then gets the lock of a file
// that no one else can see any more, and must start again with the file that now has the name.
bool still_named(const Directory& directory, const std::string& name, const ForkPrivateFd& file) {
  struct stat ours, named;
  return fstat(file.number(), &ours) == 0 &&
         fstatat(directory.descriptor(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

ForkPrivateFd open_lock(const Directory& directory, const std::string& name) {
  ForkPrivateFd file(
      openat(directory.descriptor(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat status;
  if (!file || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return ForkPrivateFd();
  return file;
}

Attempt attempt(const Directory& directory, const std::string& name, const ForkPrivateFd& file) {
  while (flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return still_named(directory, name, file) ? Attempt::busy : Attempt::stale;
    if (errno != EINTR) return Attempt::impossible;  // a file system without locks
  }
  return still_named(directory, name, file) ? Attempt::held : Attempt::stale;
}

std::string identity_of_this_process() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S} UTC", getpid(), host,
                     fmt::gmtime(std::time(nullptr)));
}

std::string read_holder(const ForkPrivateFd& file) {
  char text[512];
  const ssize_t count = pread(file.number(), text, sizeof text, 0);
  return count > 0 ? printable({text, static_cast<std::size_t>(count)}) : "another process";
}

}  // namespace

ProcessLock::ProcessLock(const Directory& directory, std::string name, double seconds)
    : directory_(directory), name_(std::move(name)) {
  const Clock::time_point start = Clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  bool reported = false;
  ForkPrivateFd file = open_lock(directory_, name_);
  while (file) {
    switch (attempt(directory_, name_, file)) {
      case Attempt::held: {
        const std::string identity = identity_of_this_process();
        if (ftruncate(file.number(), 0) == 0) write_all(file.number(), std::as_bytes(std::span(identity)));
        file_ = std::move(file);
        return;
      }
      case Attempt::impossible:
        unlinkat(directory_.descriptor(), name_.c_str(), 0);  // its content means nothing to anyone
        return;
      case Attempt::stale:
        file = open_lock(directory_, name_);
        continue;
      case Attempt::busy:
        break;
    }
    if (waited() >= seconds || interrupted()) {
      holder_ = read_holder(file);
      return;
    }
    if (!reported && waited() > 1) {
      reported = true;
      tell("cache", "waiting for " + read_holder(file) + ", which makes the same kernel");
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

ProcessLock::~ProcessLock() {
  if (!file_) return;  // not acquired, or this is a child forked since then
  if (still_named(directory_, name_, file_)) unlinkat(directory_.descriptor(), name_.c_str(), 0);
  flock(file_.number(), LOCK_UN);
}

}  // namespace regard::cache
