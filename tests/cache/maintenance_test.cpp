#include <sys/resource.h>

#include "cache_fixture.h"

namespace regard {
namespace {

using testing::ElementsAre;
using Maintenance = CacheTest;

constexpr std::int64_t file_bytes = 64 + 12 + 5000 + 32;  // of entry_number with a one-digit number

TEST_F(Maintenance, ListAndStatReportWhatIsThere) {
  Cache cache = open(123456);
  cache.publish(key_number(1), entry_number(1));
  cache.publish(key_number(2), entry_number(2));
  write(folder_ + "/notes.txt", "not ours");
  const std::vector<CacheEntryInfo> list = cache.list();
  ASSERT_EQ(list.size(), 2u);
  for (const CacheEntryInfo& info : list) {
    const int number = info.key == key_number(1).hex() ? 1 : 2;
    EXPECT_EQ(info.key, key_number(number).hex());
    EXPECT_EQ(info.manifest, entry_number(number).manifest);
    EXPECT_EQ(info.bytes, file_bytes);
    EXPECT_NEAR(static_cast<double>(info.used_unix_seconds), static_cast<double>(time(nullptr)), 60);
    EXPECT_EQ(info.problem, "");
  }
  const CacheStat stat = cache.stat();
  EXPECT_EQ(stat.directory, folder_);
  EXPECT_EQ(stat.state, "ok");
  EXPECT_EQ(stat.entries, 2);
  EXPECT_EQ(stat.bytes, 2 * file_bytes);
  EXPECT_EQ(stat.bound_bytes, 123456);
  EXPECT_EQ(stat.leftovers, 0);
}

TEST_F(Maintenance, BeforeTheFirstPublishThereIsNothing) {
  Cache cache = open();
  EXPECT_TRUE(cache.list().empty());
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_EQ(cache.stat().entries, 0);
  EXPECT_EQ(cache.gc().entries, 0);
  EXPECT_EQ(cache.clean().entries, 0);
  EXPECT_FALSE(fs::exists(folder_)) << "looking makes no folder";
}

TEST_F(Maintenance, VerifyFindsWhatListCannotSee) {
  Cache cache = open();
  for (int number : {1, 2}) cache.publish(key_number(number), entry_number(number));
  std::string bytes = read(path_of(1));
  bytes[3000] = static_cast<char>(bytes[3000] + 1);
  write(path_of(1), bytes);
  for (const CacheEntryInfo& info : cache.list()) EXPECT_EQ(info.problem, "");
  for (const CacheEntryInfo& info : cache.verify()) {
    EXPECT_EQ(info.problem, info.key == key_number(1).hex() ? "its checksum is wrong" : "");
  }
}

TEST_F(Maintenance, GcRemovesBadEntriesAndLitterOfTheDead) {
  Cache cache = open();
  for (int number : {1, 2}) cache.publish(key_number(number), entry_number(number));
  write(path_of(1), "damaged");
  const std::string entry = key_number(2).hex() + ".regard";
  write(folder_ + "/" + entry + ".77.1.tmp", "of one who was killed");
  set_age(folder_ + "/" + entry + ".77.1.tmp", 1000);
  write(folder_ + "/" + entry + ".77.2.tmp", "is being written");
  write(folder_ + "/" + key_number(3).hex() + ".lock", "process 77");
  write(folder_ + "/notes.txt", "not ours");
  EXPECT_EQ(cache.stat().leftovers, 3);
  EXPECT_EQ(cache.list().size(), 2u);  // without litter
  const CacheStat left = cache.gc();
  EXPECT_EQ(left.entries, 1);
  EXPECT_EQ(left.leftovers, 1);
  EXPECT_THAT(files(), testing::UnorderedElementsAre(entry, entry + ".77.2.tmp", "notes.txt"));
  expect_cached(cache, 2);
}

// Things under a lock's name that cannot be a lock.
TEST_F(Maintenance, GcAndCleanRemoveFoldersAndLinksInPlaceOfLocks) {
  Cache cache = open();
  const auto lock = [&](int number) { return folder_ + "/" + key_number(number).hex() + ".lock"; };
  for (const bool gc : {true, false}) {
    cache.publish(key_number(1), entry_number(1));
    fs::create_directories(lock(1) + "/with/content");
    fs::create_symlink(root_, lock(2));
    EXPECT_EQ(mkfifo(lock(3).c_str(), 0600), 0);
    EXPECT_EQ(cache.stat().leftovers, 3);
    const CacheStat left = gc ? cache.gc() : cache.clean();
    EXPECT_EQ(left.leftovers, 0);
    EXPECT_EQ(left.entries, gc ? 1 : 0);
  }
  EXPECT_TRUE(fs::exists(root_));
  EXPECT_TRUE(files().empty());
}

/// Leaves only this many descriptors free in this process.
void leave_descriptors(int free) {
  std::vector<int> found;
  for (int i = 0; i <= free; ++i) found.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const int one : found) close(one);
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = static_cast<rlim_t>(found.back());
  setrlimit(RLIMIT_NOFILE, &files);
}

// Once, a mere lack of descriptors removed good entries, and files that were still being written.
TEST_F(Maintenance, WhatCannotBeOpenedForLackOfDescriptorsStaysAndIsNotCalledBad) {
  Cache cache = open();
  for (int number : {1, 2}) cache.publish(key_number(number), entry_number(number));
  const std::string temporary = path_of(1) + ".77.1.tmp";
  for (int free = 0; free < 5; ++free) {
    write(temporary, "is being written");
    const int status = wait_for(start([&] {
      const std::string log = root_ + "/log";
      dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDERR_FILENO);
      setenv("REGARD_LOG", "cache", 1);
      leave_descriptors(free);
      for (const auto& infos : {cache.list(), cache.verify()})
        for (const CacheEntryInfo& info : infos)
          if (!info.problem.empty() || (info.manifest.empty() && info.unread.empty())) return 1;
      cache.gc();
      Cache::Missed missed;
      if (!cache.find(key_number(1), &missed) && !missed.scarce) return 2;
      return 0;
    }));
    EXPECT_EQ(status, 0) << free;
    EXPECT_EQ(read(root_ + "/log"), "") << free;
    EXPECT_TRUE(fs::exists(temporary)) << free;
    for (int number : {1, 2}) expect_cached(cache, number);
  }
}

TEST_F(Maintenance, GcLeavesALockThatIsHeld) {
  Cache cache = open();
  const std::string lock = folder_ + "/" + key_number(1).hex() + ".lock";
  const auto got = cache.get(
      key_number(1),
      [&] {
        EXPECT_EQ(open().gc().leftovers, 1);
        EXPECT_EQ(open().clean().leftovers, 1);
        EXPECT_TRUE(fs::exists(lock));
        return entry_number(1);
      },
      nullptr);
  EXPECT_TRUE(got);
  EXPECT_FALSE(fs::exists(lock));
}

TEST_F(Maintenance, CleanRemovesEveryEntryAndNothingElse) {
  Cache cache = open();
  for (int number : {1, 2, 3}) cache.publish(key_number(number), entry_number(number));
  write(path_of(3), "damaged");
  write(folder_ + "/notes.txt", "not ours");
  EXPECT_EQ(cache.clean().entries, 0);
  EXPECT_THAT(files(), ElementsAre("notes.txt"));
  expect_replaced(cache, 1);
}

TEST_F(Maintenance, TheLeastRecentlyUsedEntriesGoFirst) {
  Cache cache = open(3 * file_bytes);
  for (int number : {1, 2, 3}) {
    cache.publish(key_number(number), entry_number(number));
    set_age(path_of(number), 100'000 - number);
  }
  expect_cached(cache, 1);  // the most recently used now
  cache.publish(key_number(4), entry_number(4));
  EXPECT_FALSE(cache.find(key_number(2)));
  for (int number : {1, 3, 4}) expect_cached(cache, number);
  EXPECT_EQ(cache.stat().bytes, 3 * file_bytes);
}

TEST_F(Maintenance, AHitTouchesAtMostOnceAnHour) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  set_age(path_of(1), 1800);
  expect_cached(cache, 1);
  EXPECT_LT(cache.list()[0].used_unix_seconds, time(nullptr) - 1700);
  set_age(path_of(1), 7200);
  expect_cached(cache, 1);
  EXPECT_GT(cache.list()[0].used_unix_seconds, time(nullptr) - 60);
}

TEST_F(Maintenance, AnEntryLargerThanTheBoundStaysUntilTheNext) {
  Cache cache = open(10);
  EXPECT_TRUE(cache.publish(key_number(1), entry_number(1)));
  expect_cached(cache, 1);
  EXPECT_TRUE(cache.publish(key_number(2), entry_number(2)));
  EXPECT_FALSE(cache.find(key_number(1)));
  expect_cached(cache, 2);
  EXPECT_EQ(cache.gc().entries, 0);
}

TEST_F(Maintenance, ReadersAndWritersUnderASmallBoundAlwaysGetTheRightEntry) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(start([&, child] {
      Cache cache = open(3 * file_bytes);
      for (int round = 0; round < 40; ++round) {
        const int number = (round * 3 + child) % 8;
        const auto got = cache.get(key_number(number), [&] { return entry_number(number); }, nullptr);
        if (!got || !same(*got, entry_number(number))) return 1;
        if (round % 10 == child) cache.gc();
      }
      return 0;
    }));
  }
  for (pid_t child : children) EXPECT_EQ(wait_for(child, 40), 0);
  EXPECT_LE(open(3 * file_bytes).gc().bytes, 3 * file_bytes);
}

}  // namespace
}  // namespace regard
