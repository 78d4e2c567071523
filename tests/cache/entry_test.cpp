// Damage to an entry's file never gives a wrong entry or an error; the next entry made replaces the file.
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include <cstring>
#include <random>

#include "cache/entry.h"
#include "cache_fixture.h"

namespace regard {
namespace {

using EntryOnDisk = CacheTest;

void put_byte(const std::string& path, std::size_t place, char byte) {
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(place))
      .put(byte);
}

TEST_F(EntryOnDisk, WhatIsPublishedIsFound) {
  Cache cache = open();
  for (int number = 0; number < 5; ++number) {
    EXPECT_FALSE(cache.find(key_number(number)));
    EXPECT_TRUE(cache.publish(key_number(number), entry_number(number)));
  }
  for (int number = 0; number < 5; ++number) expect_cached(cache, number);
}

TEST_F(EntryOnDisk, AnEmptyPayloadIsKept) {
  Cache cache = open();
  const CacheEntry empty{"{\"number\":1}", {}};
  cache.publish(key_number(1), empty);
  const std::optional<CacheEntry> found = cache.find(key_number(1));
  ASSERT_TRUE(found);
  EXPECT_TRUE(same(*found, empty));
}

TEST_F(EntryOnDisk, AManifestThatIsNoJsonObjectIsAMiss) {
  for (const char* manifest : {"", "null", "[1]", "{\"number\":1", "{\"number\":1}}", "{\"a\":\"\xff\"}"}) {
    Cache cache = open();
    cache.publish(key_number(1), {manifest, {}});
    for (const auto& list : {cache.list(), cache.verify()}) {
      ASSERT_EQ(list.size(), 1u);
      EXPECT_EQ(list[0].problem.find("its manifest is not "), 0u) << manifest << ": " << list[0].problem;
      EXPECT_EQ(list[0].manifest, "");
    }
    expect_replaced(cache, 1);
  }
}

TEST_F(EntryOnDisk, AManifestThatSaysNothingOrTwoThingsIsAMiss) {
  const std::pair<const char*, const char*> table[] = {
      {"{}", "its manifest is empty"},
      {R"({"kernel":"a","kernel":"b"})", "its manifest has 'kernel' twice"},
      {R"({"a":[{"b":{},"b":1}]})", "its manifest has 'b' twice"},
  };
  for (const auto& [manifest, problem] : table) {
    Cache cache = open();
    cache.publish(key_number(1), {manifest, {}});
    for (const auto& list : {cache.list(), cache.verify()}) {
      ASSERT_EQ(list.size(), 1u);
      EXPECT_EQ(list[0].problem, problem);
      EXPECT_EQ(list[0].manifest, "");
    }
    expect_replaced(cache, 1);
  }
  Cache cache = open();
  const CacheEntry sound{R"({"a":{"x":1},"b":{"x":1},"c":[{"x":1},{"x":1}]})", {}};
  cache.publish(key_number(2), sound);
  EXPECT_TRUE(cache.find(key_number(2)));
}

TEST_F(EntryOnDisk, ADeepManifestIsAMiss) {
  for (const std::size_t depth : {std::size_t{100}, std::size_t{400'000}}) {
    Cache cache = open();
    const std::string manifest = "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
    cache.publish(key_number(1), {manifest, {}});
    for (const auto& list : {cache.list(), cache.verify()}) {
      ASSERT_EQ(list.size(), 1u);
      EXPECT_EQ(list[0].problem, "its manifest is nested deeper than 64 levels");
      EXPECT_EQ(list[0].manifest, "");
    }
    expect_replaced(cache, 1);
  }
}

TEST_F(EntryOnDisk, ALongManifestIsListed) {
  Cache cache = open();
  const CacheEntry entry{"{\"name\":\"" + std::string(200'000, 'x') + "\"}", {}};
  cache.publish(key_number(1), entry);
  for (const auto& list : {cache.list(), cache.verify()}) {
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].problem, "");
    EXPECT_EQ(list[0].manifest, entry.manifest);
  }
}

TEST_F(EntryOnDisk, OneEntryIsOneFileAndNothingElseIsLeft) {
  Cache cache = open();
  ASSERT_TRUE(cache.get(key_number(1), [] { return entry_number(1); }, nullptr));
  EXPECT_THAT(files(), testing::ElementsAre(key_number(1).hex() + ".regard"));
}

TEST_F(EntryOnDisk, FolderAndFilesArePrivateWhateverTheUmask) {
  const mode_t before = umask(0);
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  umask(before);
  struct stat status;
  stat(folder_.c_str(), &status);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  stat(path_of(1).c_str(), &status);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(EntryOnDisk, EveryTruncationIsAMiss) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  const std::string whole = read(path_of(1));
  std::vector<std::size_t> lengths;
  for (std::size_t n = 0; n <= 130; ++n) lengths.push_back(n);  // header, manifest and a little
  for (std::size_t n = 131; n < whole.size(); n += 211) lengths.push_back(n);
  for (std::size_t n = whole.size() - 34; n < whole.size(); ++n) lengths.push_back(n);  // checksum
  for (std::size_t length : lengths) {
    write(path_of(1), whole.substr(0, length));
    EXPECT_FALSE(cache.find(key_number(1))) << "cut to " << length << " of " << whole.size();
  }
  expect_replaced(cache, 1);
}

TEST_F(EntryOnDisk, AppendedBytesAreAMiss) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  write(path_of(1), read(path_of(1)) + '\0');
  expect_replaced(cache, 1);
}

TEST_F(EntryOnDisk, EveryFlippedBitIsAMiss) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  const std::string whole = read(path_of(1));
  std::mt19937 random(1);
  std::vector<std::size_t> bits;
  for (std::size_t bit = 0; bit < 64 * 8; ++bit) bits.push_back(bit);  // all of the header
  while (bits.size() < 2000) bits.push_back(random() % (whole.size() * 8));
  for (std::size_t bit : bits) {
    const char good = whole[bit / 8];
    put_byte(path_of(1), bit / 8, static_cast<char>(good ^ (1 << (bit % 8))));
    EXPECT_FALSE(cache.find(key_number(1))) << "bit " << bit;
    put_byte(path_of(1), bit / 8, good);
  }
  expect_cached(cache, 1);
  put_byte(path_of(1), 100, static_cast<char>(~whole[100]));
  expect_replaced(cache, 1);
}

TEST(EntryBytes, AreRefusedWithAnyOfTenThousandBitsFlipped) {
  std::vector<std::byte> bytes = cache::encode(key_number(1), entry_number(1, 20'000));
  std::mt19937 random(6);
  for (int flip = 0; flip < 10'000; ++flip) {
    const std::size_t bit = random() % (bytes.size() * 8);
    const std::byte good = bytes[bit / 8];
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_FALSE(cache::decode(key_number(1), bytes)) << "bit " << bit;
    bytes[bit / 8] = good;
  }
  const Result<CacheEntry> entry = cache::decode(key_number(1), bytes);
  ASSERT_TRUE(entry);
  EXPECT_TRUE(same(*entry, entry_number(1, 20'000)));
}

TEST(EntryBytes, AreRefusedAtEveryOtherLength) {
  const std::vector<std::byte> bytes = cache::encode(key_number(1), entry_number(1, 3000));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_FALSE(cache::decode(key_number(1), std::span(bytes).first(length))) << length;
  }
}

TEST_F(EntryOnDisk, RandomBytesAreAMiss) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 400, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    write(path_of(1), bytes);
    EXPECT_FALSE(cache.find(key_number(1)));
  }
  expect_replaced(cache, 1);
}

TEST_F(EntryOnDisk, AnotherSchemaIsAMissThoughItsChecksumIsRight) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  std::string bytes = read(path_of(1));
  bytes[8] = 2;
  bytes.resize(bytes.size() - 32);
  const Digest sum = sha256(bytes);
  bytes.append(reinterpret_cast<const char*>(sum.bytes.data()), sum.bytes.size());
  write(path_of(1), bytes);
  EXPECT_EQ(cache.verify()[0].problem, "it has schema 2, not 1");
  expect_replaced(cache, 1);
}

TEST_F(EntryOnDisk, AGoodEntryUnderAnotherNameIsAMiss) {
  Cache cache = open();
  cache.publish(key_number(2), entry_number(2));
  fs::rename(path_of(2), path_of(1));
  EXPECT_EQ(cache.verify()[0].problem, "it holds another key than its name says");
  expect_replaced(cache, 1);
}

TEST_F(EntryOnDisk, LengthsThatOverflowAreAMiss) {
  const std::vector<std::byte> good = cache::encode(key_number(1), entry_number(1));
  for (const auto& [manifest, payload] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {~0ull, 0}, {0, ~0ull}, {~0ull, 2}, {1ull << 63, 1ull << 63}, {good.size(), 0}}) {
    std::vector<std::byte> bytes(good.begin(), good.end() - 32);
    std::memcpy(bytes.data() + 48, &manifest, 8);
    std::memcpy(bytes.data() + 56, &payload, 8);
    const Digest sum = sha256(bytes);
    bytes.insert(bytes.end(), reinterpret_cast<const std::byte*>(sum.bytes.data()),
                 reinterpret_cast<const std::byte*>(sum.bytes.data()) + 32);
    EXPECT_FALSE(cache::decode(key_number(1), bytes)) << manifest << ' ' << payload;
  }
}

/// An entry's header that states these numbers of bytes.
std::string header_that_says(std::uint64_t manifest, std::uint64_t payload) {
  const std::vector<std::byte> good = cache::encode(key_number(1), entry_number(1));
  std::string header(reinterpret_cast<const char*>(good.data()), 64);
  std::memcpy(header.data() + 48, &manifest, 8);
  std::memcpy(header.data() + 56, &payload, 8);
  return header;
}

// Reading the whole file once took 39 s and 4 GiB of memory, or failed, and then gc could not remove it.
TEST_F(EntryOnDisk, OneThatIsTooLongIsAMissWithoutBeingRead) {
  constexpr std::uint64_t long_file = 4ull << 30, fixed = 64 + 32;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {header_that_says(12, 5000), "its length is not what its header says"},
      {header_that_says(12, long_file - fixed - 12), "it is larger than an entry may be"},
      {header_that_says(long_file - fixed - 12, 12), "it is larger than an entry may be"},
      {std::string(64, 'x'), "it is not a cache entry"},
  };
  for (const auto& [header, problem] : cases) {
    const int status = wait_for(start([&, &header = header, &problem = problem] {
      const auto most_memory = [] {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_maxrss;
      };
      const long before = most_memory();
      Cache cache = open();
      const auto put = [&] {
        cache.publish(key_number(1), entry_number(1));  // also makes the folder
        write(path_of(1), header);
        fs::resize_file(path_of(1), long_file);
      };
      put();
      EXPECT_EQ(cache.list().at(0).problem, problem);
      EXPECT_EQ(cache.verify().at(0).problem, problem);
      expect_replaced(cache, 1);
      put();
      EXPECT_EQ(cache.gc().entries, 0);
      put();
      cache.publish(key_number(2), entry_number(2));
      EXPECT_FALSE(fs::exists(path_of(1))) << "it would evict entries that others use";
      put();
      EXPECT_EQ(cache.clean().entries, 0);
      EXPECT_LT(most_memory() - before, 64 * 1024) << "KiB";
      return testing::Test::HasFailure() ? 1 : 0;
    }));
    EXPECT_EQ(status, 0) << problem;
  }
}

TEST_F(EntryOnDisk, WhatAReaderWouldNotTakeIsNotWritten) {
  Cache cache = open();
  CacheEntry large = entry_number(1);
  large.payload.resize(largest_payload_bytes + 1);
  const Status kept = cache.write(key_number(1), large);
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().message, testing::HasSubstr("takes up to 67108864 and 1048576 bytes"));
  large = entry_number(1);
  large.manifest = "{\"a\":\"" + std::string(largest_manifest_bytes, 'a') + "\"}";
  EXPECT_FALSE(cache.write(key_number(1), large));
}

TEST_F(EntryOnDisk, ALinkIsNotFollowed) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  fs::rename(path_of(1), root_ + "/elsewhere");
  fs::create_symlink(root_ + "/elsewhere", path_of(1));
  EXPECT_EQ(cache.verify()[0].problem, "it is a link");
  expect_replaced(cache, 1);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path_of(1))));
  EXPECT_TRUE(fs::exists(root_ + "/elsewhere"));
}

TEST_F(EntryOnDisk, AFolderOrPipeInItsPlaceIsReplaced) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  fs::remove(path_of(1));
  fs::create_directories(path_of(1) + "/with/content");
  EXPECT_EQ(cache.verify()[0].problem, "it is not a file");
  expect_replaced(cache, 1);
  fs::remove(path_of(1));
  mkfifo(path_of(1).c_str(), 0600);
  EXPECT_EQ(cache.verify()[0].problem, "it is not a file");
  expect_replaced(cache, 1);
  fs::remove(path_of(1));
  if (mknod(path_of(1).c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0) expect_replaced(cache, 1);  // /dev/zero
}

TEST_F(EntryOnDisk, AnEntryThatOthersCanWriteIsAMiss) {
  Cache cache = open();
  for (mode_t mode : {0620, 0602, 0666}) {
    cache.publish(key_number(1), entry_number(1));
    chmod(path_of(1).c_str(), mode);
    expect_replaced(cache, 1);
  }
}

TEST_F(EntryOnDisk, AnEntryOfAnotherUserIsAMiss) {
  Cache cache = open();
  cache.publish(key_number(1), entry_number(1));
  if (geteuid() != 0 || chown(path_of(1).c_str(), 12345, 12345) != 0) GTEST_SKIP() << "needs root";
  expect_replaced(cache, 1);
}

}  // namespace
}  // namespace regard
