#include "base/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/descriptor.h"
#include "base/files.h"
#include "base/process.h"

namespace regard {
namespace {

// Between creating a file and locking it.
constexpr std::time_t unmarked_seconds = 2;
// Without locks: writing or compiling a file never takes this long.
constexpr std::time_t unlockable_seconds = 3600;
constexpr std::time_t kept_seconds = 7 * 24 * 3600;
// A scan for leftovers holds the lock of what it looks at for microseconds.
constexpr int lock_attempts = 1000;
constexpr std::chrono::milliseconds between_attempts{1};

// Time since that date, in either direction: the clock may have been set back since.
std::time_t age(const struct stat& status) {
  return std::abs(std::time(nullptr) - status.st_mtime);
}

bool may_go(const std::string& path, bool kept) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!file || fstat(file.number(), &status) != 0 || status.st_uid != geteuid()) return false;
  return kept ? age(status) > kept_seconds : is_abandoned(file.number());
}

}  // namespace

std::string temporary_folder() {
  const char* chosen = variable("TMPDIR");
  return chosen != nullptr && *chosen == '/' ? chosen : "/tmp";
}

void mark_in_use(int descriptor) {
  for (int attempt = 0; attempt < lock_attempts; ++attempt) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return;
    if (errno == EWOULDBLOCK) {
      std::this_thread::sleep_for(between_attempts);
    } else if (errno != EINTR) {
      return;
    }
  }
}

bool is_abandoned(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return false;
  int locked;
  do {
    locked = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (locked != 0 && errno == EINTR);
  if (locked == 0) return age(status) >= unmarked_seconds;
  return errno != EWOULDBLOCK && age(status) > unlockable_seconds;
}

void remove_abandoned_temporaries() {
  const std::string folder = temporary_folder();
  for (const std::string& name : names_in(folder)) {
    const bool kept = name.starts_with(kept_prefix);
    if (!kept && !name.starts_with(temporary_prefix)) continue;
    const std::string path = folder + "/" + name;
    if (may_go(path, kept)) remove_all(path.c_str());
  }
}

}  // namespace regard
