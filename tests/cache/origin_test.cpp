// Where keys are trusted, an entry is used only if it was compiled here or signed with one of them.
#include "cache/cache_entry.h"

#include "cache/entry.h"
#include "cache_fixture.h"

namespace regard {
namespace {

const PublicKey own{sha256("own").bytes}, other{sha256("other").bytes};
const Origin compiled{true, {}}, unknown, by_own{false, own}, by_other{false, other};

class OriginOnDisk : public CacheTest {
 protected:
  Cache trusting(std::vector<PublicKey> keys) const { return Cache(folder_, 1 << 30, 30, std::move(keys)); }
  /// Stores an entry of that origin under that number.
  void keep(int number, const Origin& origin) const {
    CacheEntry entry = entry_number(number);
    entry.origin = origin;
    ASSERT_TRUE(open().write(key_number(number), entry));
  }
};

TEST_F(OriginOnDisk, IsKeptAndListed) {
  for (const Origin& origin : {compiled, unknown, by_own}) {
    keep(1, origin);
    Cache cache = open();
    expect_cached(cache, 1);
    EXPECT_EQ(cache.find(key_number(1))->origin, origin);
    for (const auto& infos : {cache.list(), cache.verify()}) {
      ASSERT_EQ(infos.size(), 1u);
      EXPECT_EQ(infos[0].problem, "");
      EXPECT_EQ(infos[0].manifest, entry_number(1).manifest);
      EXPECT_EQ(infos[0].origin, origin);
      EXPECT_TRUE(infos[0].trusted);
    }
  }
}

TEST_F(OriginOnDisk, DecidesWhereKeysAreTrusted) {
  const std::pair<Origin, bool> cases[] = {
      {compiled, true}, {by_own, true}, {by_other, false}, {unknown, false}};
  for (const auto& [origin, is_used] : cases) {
    keep(1, origin);
    Cache cache = trusting({own});
    EXPECT_EQ(cache.list().at(0).trusted, is_used);
    Cache::Missed missed;
    EXPECT_EQ(cache.find(key_number(1), &missed).has_value(), is_used);
    EXPECT_EQ(missed.why, is_used ? "" : "it was neither compiled here nor signed with a trusted key");
    EXPECT_FALSE(missed.scarce);
    const auto make = [] {
      CacheEntry entry = entry_number(1);
      entry.origin = compiled;
      return entry;
    };
    bool from_cache = !is_used;
    ASSERT_TRUE(cache.get(key_number(1), make, &from_cache));
    EXPECT_EQ(from_cache, is_used);
    EXPECT_TRUE(cache.find(key_number(1))) << "a compiled entry replaces one that is not trusted";
  }
  keep(1, by_other);
  EXPECT_TRUE(trusting({own, other}).find(key_number(1)));
}

// Entries that older versions stored, and entries fetched without a signature.
TEST_F(OriginOnDisk, OfAnEntryThatDoesNotSayItIsNotKnown) {
  const std::vector<std::byte> bytes = cache::encode(key_number(1), entry_number(1));
  EXPECT_EQ(std::to_integer<int>(bytes[12]), 0);
  EXPECT_EQ(bytes.size(), 64u + entry_number(1).manifest.size() + 5000 + 32);
  EXPECT_EQ(cache::decode(key_number(1), bytes)->origin, unknown);
}

TEST_F(OriginOnDisk, ThatNoVersionKnowsIsDamage) {
  keep(1, compiled);
  std::string bytes = read(path_of(1));
  bytes[12] = 3;
  bytes.resize(bytes.size() - 32);
  const Digest sum = sha256(bytes);
  bytes.append(reinterpret_cast<const char*>(sum.bytes.data()), sum.bytes.size());
  write(path_of(1), bytes);
  EXPECT_EQ(open().verify()[0].problem, "its header is damaged");
}

TEST_F(OriginOnDisk, ASignerThatIsCutOffIsAMiss) {
  keep(1, by_own);
  const std::string whole = read(path_of(1));
  for (std::size_t length = 60; length < 100; ++length) {
    write(path_of(1), whole.substr(0, length));
    EXPECT_FALSE(open().find(key_number(1))) << length;
    EXPECT_NE(open().list().at(0).problem, "") << length;
  }
}

}  // namespace
}  // namespace regard
