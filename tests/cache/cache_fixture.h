// A cache in the test's own folder, whose name has a space and a non-ASCII letter.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "cache/cache.h"
#include "support/temporary_folder.h"

namespace regard {

namespace fs = std::filesystem;

inline Digest key_number(int number) {
  return sha256("key " + std::to_string(number));
}

/// The entry of the key with that number: every byte depends on the number, so that a mix-up shows.
inline CacheEntry entry_number(int number, std::size_t payload_bytes = 5000) {
  CacheEntry entry{"{\"number\":" + std::to_string(number) + "}", {}};
  for (std::size_t i = 0; i < payload_bytes; ++i) {
    entry.payload.push_back(static_cast<std::byte>((static_cast<std::size_t>(number) * 7 + i * i) % 251));
  }
  return entry;
}

inline bool same(const CacheEntry& a, const CacheEntry& b) {
  return a.manifest == b.manifest && a.payload == b.payload;
}

class CacheTest : public testing::Test {
 protected:
  Cache open(std::int64_t bound = 1 << 30, double lock_seconds = 30) const {
    return Cache(folder_, bound, lock_seconds);
  }
  std::string path_of(int number) const { return folder_ + "/" + key_number(number).hex() + ".regard"; }

  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    chmod(path.c_str(), 0600);
  }
  static void set_age(const std::string& path, std::int64_t seconds) {
    const timespec then{time(nullptr) - seconds, 0};
    const timespec times[] = {then, then};
    utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(folder_)) names.push_back(item.path().filename());
    return names;
  }

  /// Expects that find misses, and that get makes, returns and keeps the right entry.
  static void expect_replaced(Cache& cache, int number) {
    EXPECT_FALSE(cache.find(key_number(number)));
    bool from_cache = true;
    std::string not_kept = "not asked yet";
    const Result<CacheEntry> got =
        cache.get(key_number(number), [&] { return entry_number(number); }, &from_cache, &not_kept);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_FALSE(from_cache);
    EXPECT_EQ(not_kept, "");
    EXPECT_TRUE(same(*got, entry_number(number)));
    expect_cached(cache, number);
  }
  static void expect_cached(Cache& cache, int number) {
    const std::optional<CacheEntry> found = cache.find(key_number(number));
    ASSERT_TRUE(found);
    EXPECT_TRUE(same(*found, entry_number(number)));
  }

  const TemporaryFolder own_;
  const std::string& root_ = own_.path();
  std::string folder_ = root_ + "/kernels";
};

/// Runs body in a forked process, which exits with its result, or with 99 if it threw.
inline pid_t start(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    _exit(body());
  } catch (...) {
    _exit(99);
  }
}

/// The child's exit status; 1000 + signal if a signal ended it; -1 if it had to be killed after `seconds`.
inline int wait_for(pid_t child, double seconds = 20) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace regard
