// However many ask for the same key at the same time, its entry is made once, and all get it.
#include <atomic>
#include <random>
#include <stdexcept>

#include "cache_fixture.h"

namespace regard {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class Flight : public CacheTest {
 protected:
  /// Makes the entry slowly and leaves one line in a file that all processes append to.
  Result<CacheEntry> make(int number, int milliseconds_long) const {
    const std::string line = std::to_string(number) + "\n";
    const int log = ::open((root_ + "/makes").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (::write(log, line.data(), line.size()) < 0) throw std::runtime_error("cannot count");
    close(log);
    std::this_thread::sleep_for(milliseconds(milliseconds_long));
    return entry_number(number);
  }
  /// The number of make() calls for this number.
  int makes(int number) const {
    std::ifstream log(root_ + "/makes");
    int count = 0;
    for (std::string line; std::getline(log, line);) count += line == std::to_string(number);
    return count;
  }
  /// Gets the entry; 0 if it is the right one.
  int get_slowly(Cache& cache, int number, int milliseconds_long) const {
    const Result<CacheEntry> got =
        cache.get(key_number(number), [&] { return make(number, milliseconds_long); }, nullptr);
    return got && same(*got, entry_number(number)) ? 0 : 1;
  }
  pid_t start_getter(int number, int milliseconds_long, double lock_seconds = 30) const {
    return start([=, this] {
      Cache cache = open(1 << 30, lock_seconds);
      return get_slowly(cache, number, milliseconds_long);
    });
  }
  std::string lock_path(int number) const { return folder_ + "/" + key_number(number).hex() + ".lock"; }
  void wait_for_make(int number) const {
    for (int i = 0; i < 5000 && makes(number) == 0; ++i) std::this_thread::sleep_for(milliseconds(1));
  }
};

TEST_F(Flight, EightProcessesMakeAKeyOnce) {
  for (int round = 0; round < 5; ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) children.push_back(start_getter(round, 50));
    for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(makes(round), 1);
    EXPECT_FALSE(fs::exists(lock_path(round)));
  }
}

TEST_F(Flight, EightProcessesMakeDifferentKeysInParallel) {
  std::vector<pid_t> children;
  for (int number = 0; number < 8; ++number) {
    children.push_back(start([=, this] {
      Cache cache = open();
      const auto make_when_all_are_at_it = [&] {
        const Result<CacheEntry> made = make(number, 0);
        for (int other = 0; other < 8; ++other) wait_for_make(other);
        return made;
      };
      const auto got = cache.get(key_number(number), make_when_all_are_at_it, nullptr);
      return got && same(*got, entry_number(number)) && makes((number + 1) % 8) == 1 ? 0 : 1;
    }));
  }
  for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  Cache cache = open();
  for (int number = 0; number < 8; ++number) expect_cached(cache, number);
}

TEST_F(Flight, EightThreadsMakeAKeyOnce) {
  Cache cache = open();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { wrong += get_slowly(cache, 1, 100); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(makes(1), 1);
}

TEST_F(Flight, ThreadsShareEvenWhereNothingCanBeKept) {
  write(folder_, "a file, so there is no cache");
  Cache cache = open();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { wrong += get_slowly(cache, 1, 300); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(makes(1), 1);
}

TEST_F(Flight, TwoCachesOfOneProcessMakeAKeyOnce) {
  Cache one = open(), two = open();
  int wrong = 0;
  std::thread other([&] { wrong = get_slowly(one, 1, 100); });
  EXPECT_EQ(get_slowly(two, 1, 100), 0);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(makes(1), 1);
}

TEST_F(Flight, AnErrorReachesAllWaitersAndIsNotKept) {
  Cache cache = open();
  std::atomic<int> calls{0}, errors{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto got = cache.get(
          key_number(1),
          [&]() -> Result<CacheEntry> {
            ++calls;
            std::this_thread::sleep_for(milliseconds(200));
            return fail(ErrorKind::no_kernel, "the compiler said no");
          },
          nullptr);
      errors += !got && got.error().message == "the compiler said no";
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 4);
  EXPECT_EQ(calls, 1);
  expect_replaced(cache, 1);  // the next attempt is made afresh
}

TEST_F(Flight, AnExceptionBecomesAnErrorAndLeavesNothingHanging) {
  Cache cache = open();
  const auto throwing = [&](auto exception) {
    const auto got = cache.get(key_number(1), [&]() -> Result<CacheEntry> { throw exception; }, nullptr);
    return got ? Error{ErrorKind::invalid, "no error"} : got.error();
  };
  EXPECT_EQ(throwing(std::bad_alloc()).kind, ErrorKind::no_memory);
  EXPECT_THAT(throwing(std::runtime_error("broken pipe dream")).message, HasSubstr("broken pipe dream"));
  EXPECT_EQ(throwing(42).kind, ErrorKind::internal);
  EXPECT_FALSE(fs::exists(lock_path(1)));
  expect_replaced(cache, 1);
}

TEST_F(Flight, AskingForAKeyWhileMakingItIsAnErrorAndDoesNotHang) {
  const int status = wait_for(start([&] {
    Cache cache = open();
    const auto ask = [&] { return cache.get(key_number(1), [] { return entry_number(1); }, nullptr); };
    const auto got = cache.get(key_number(1), ask, nullptr);
    return !got && got.error().kind == ErrorKind::internal ? 0 : 1;
  }));
  EXPECT_EQ(status, 0);
}

TEST_F(Flight, AKilledHolderIsFollowedAtOnce) {
  const pid_t holder = start_getter(1, 60'000);
  wait_for_make(1);
  const pid_t waiter = start_getter(1, 0);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(makes(1), 1) << "the second one waits";
  EXPECT_THAT(read(lock_path(1)), HasSubstr("process " + std::to_string(holder)));
  kill(holder, SIGKILL);
  EXPECT_EQ(wait_for(waiter, 20), 0) << "its deadline is 30 s";
  EXPECT_EQ(wait_for(holder), 1000 + SIGKILL);
  EXPECT_EQ(makes(1), 2);
  EXPECT_FALSE(fs::exists(lock_path(1)));
}

TEST_F(Flight, AfterTheDeadlineAWaiterGoesOnByItselfAndNamesTheHolder) {
  const pid_t holder = start_getter(1, 60'000);
  wait_for_make(1);
  const pid_t waiter = start([&] {
    const int log = ::open((root_ + "/log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    dup2(log, STDERR_FILENO);
    Cache cache = open(1 << 30, 0.3);
    return get_slowly(cache, 1, 0);
  });
  EXPECT_EQ(wait_for(waiter), 0);
  EXPECT_EQ(makes(1), 2);
  EXPECT_THAT(read(root_ + "/log"), HasSubstr("waited 0.3 s for process " + std::to_string(holder)));
  EXPECT_TRUE(fs::exists(lock_path(1))) << "the holder still has it";
  Cache cache = open();
  expect_cached(cache, 1);
  kill(holder, SIGKILL);
  wait_for(holder);
}

TEST_F(Flight, AStoppedHolderDoesNotStopOthersForever) {
  const pid_t holder = start_getter(1, 200);
  wait_for_make(1);
  kill(holder, SIGSTOP);
  EXPECT_EQ(wait_for(start_getter(1, 0, 0.3)), 0);
  kill(holder, SIGCONT);
  EXPECT_EQ(wait_for(holder), 0);
  Cache cache = open();
  expect_cached(cache, 1);
}

TEST_F(Flight, ALockFileLeftBehindOrALinkInItsPlaceDoesNoHarm) {
  Cache cache = open();
  cache.publish(key_number(9), entry_number(9));
  write(lock_path(1), "process 1 on nowhere");
  expect_replaced(cache, 1);
  EXPECT_FALSE(fs::exists(lock_path(1)));
  write(root_ + "/target", "precious");
  fs::create_symlink(root_ + "/target", lock_path(2));
  expect_replaced(cache, 2);
  EXPECT_EQ(read(root_ + "/target"), "precious");
  fs::create_directory(lock_path(3));
  expect_replaced(cache, 3);
}

TEST_F(Flight, KillingAtRandomMomentsNeverLeavesAWrongEntry) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    // A writer that publishes in an endless loop and is killed at a random moment.
    const pid_t writer = start([&] {
      Cache cache = open();
      for (int i = 0;; ++i) {
        const Digest key = key_number(i % 3);
        if (i % 2 == 0) unlink(path_of(i % 3).c_str());
        const auto got = cache.get(key, [&] { return entry_number(i % 3, 200'000); }, nullptr);
        if (!got) return 1;
        cache.publish(key, entry_number(i % 3, 200'000));
      }
      return 0;
    });
    std::this_thread::sleep_for(milliseconds(5 + random() % 60));
    kill(writer, SIGKILL);
    EXPECT_EQ(wait_for(writer), 1000 + SIGKILL);
    Cache cache = open();
    for (int number = 0; number < 3; ++number) {
      const std::optional<CacheEntry> found = cache.find(key_number(number));
      EXPECT_TRUE(!found || same(*found, entry_number(number, 200'000)));
      const auto got = cache.get(key_number(number), [&] { return entry_number(number, 200'000); }, nullptr);
      EXPECT_TRUE(got && same(*got, entry_number(number, 200'000)));
    }
  }
  Cache cache = open();
  for (const CacheEntryInfo& info : cache.verify()) EXPECT_EQ(info.problem, "");
  for (const std::string& name : files()) set_age(folder_ + "/" + name, 1000);
  EXPECT_EQ(cache.gc().leftovers, 0);
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(Flight, AChildForkedWhileAnotherThreadMakesDoesNotWaitForIt) {
  Cache cache = open(1 << 30, /*lock_seconds=*/0.2);
  std::atomic<bool> making{false}, release{false};
  std::thread maker([&] {
    cache.get(
        key_number(1),
        [&] {
          making = true;
          while (!release) std::this_thread::sleep_for(milliseconds(1));
          return entry_number(1);
        },
        nullptr);
  });
  while (!making) std::this_thread::sleep_for(milliseconds(1));
  const int status = wait_for(start([&] { return get_slowly(cache, 1, 0) + get_slowly(cache, 2, 0); }));
  release = true;
  maker.join();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(makes(1), 1);
}

TEST_F(Flight, AChildThatLivesOnDoesNotKeepItsParentsLock) {
  Cache cache = open();
  pid_t child = 0;
  cache.get(
      key_number(1),
      [&] {
        child = start([] {  // inherits the descriptor of the lock
          sleep(60);
          return 0;
        });
        return entry_number(1);
      },
      nullptr);
  unlink(path_of(1).c_str());
  EXPECT_EQ(wait_for(start_getter(1, 0), 5), 0);
  kill(child, SIGKILL);
  wait_for(child);
}

}  // namespace
}  // namespace regard
