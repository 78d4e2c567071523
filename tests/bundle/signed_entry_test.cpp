// A cache entry as it travels between machines, and all that can happen to it on the way.
#include "bundle/signed_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bundle/bundle_fixture.h"
#include "bundle/signing.h"
#include "cache/entry.h"

namespace regard {
namespace {

using testing::HasSubstr;

const Digest key = sha256("the key");

class SignedEntries : public BundleTest {
 protected:
  std::vector<std::byte> sent(const std::string& key_file) const {
    const auto bytes = encode_signed(key, entry_, key_file);
    if (!bytes) throw std::runtime_error(bytes.error().message);
    return *bytes;
  }
  PublicKey make_key(const std::string& name) const { return *make_key_file(in_folder(name)); }

  const CacheEntry entry_ = input_number(1, 40).entry;
};

std::string refusal(std::span<const std::byte> bytes, const std::vector<PublicKey>& trusted = {}) {
  const Result<CacheEntry> entry = decode_signed(key, bytes, trusted);
  return entry ? "" : entry.error().message;
}

TEST_F(SignedEntries, WhatIsSentIsReceived) {
  const PublicKey own = make_key("own"), other = make_key("other");
  const std::vector<std::byte> plain = sent(""), with_signature = sent(in_folder("own"));
  EXPECT_EQ(plain, cache::encode(key, entry_));
  EXPECT_EQ(with_signature.size(), plain.size() + bundle::signature_bytes);
  for (const auto& [bytes, trusted] :
       {std::pair(plain, std::vector<PublicKey>{}), std::pair(with_signature, std::vector<PublicKey>{}),
        std::pair(with_signature, std::vector{other, own})}) {
    const Result<CacheEntry> entry = decode_signed(key, bytes, trusted);
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_EQ(entry->manifest, entry_.manifest);
    EXPECT_EQ(entry->payload, entry_.payload);
  }
  EXPECT_THAT(refusal(plain, {own}), HasSubstr("it is not signed"));
  EXPECT_THAT(refusal(with_signature, {other}), HasSubstr("which is not a trusted one"));
}

TEST_F(SignedEntries, SayWhoHasSignedThemAndNothingElseOfTheirOrigin) {
  const PublicKey own = make_key("own");
  CacheEntry compiled = entry_;
  compiled.origin.compiled = true;
  const auto bytes = encode_signed(key, compiled, in_folder("own"));
  EXPECT_EQ(decode_signed(key, *bytes, {})->origin, (Origin{false, own}));
  EXPECT_EQ(decode_signed(key, *encode_signed(key, compiled, ""), {})->origin, Origin());
  EXPECT_EQ(refusal(cache::encode(key, compiled)), "it claims an origin, which only a cache records");
  compiled.origin = {false, own};
  EXPECT_EQ(refusal(cache::encode(key, compiled)), "it claims an origin, which only a cache records");
}

TEST_F(SignedEntries, AnEntryOfAnotherKeyIsRefusedWhoeverSignedIt) {
  const PublicKey own = make_key("own");
  const auto bytes = encode_signed(sha256("another key"), entry_, in_folder("own"));
  EXPECT_THAT(refusal(*bytes, {own}), HasSubstr("another key"));
}

TEST_F(SignedEntries, EveryLengthAndEveryByteCounts) {
  const PublicKey own = make_key("own");
  for (const std::vector<std::byte>& good : {sent(""), sent(in_folder("own"))}) {
    const bool is_signed = good.size() > cache::encode(key, entry_).size();
    for (std::size_t length = 0; length < good.size(); ++length) {
      // Cut off before the signature, it is a whole unsigned entry.
      const bool is_whole = is_signed && length == good.size() - bundle::signature_bytes;
      EXPECT_EQ(refusal(std::span(good).first(length)).empty(), is_whole) << length;
      EXPECT_NE(refusal(std::span(good).first(length), {own}), "") << length;
    }
    for (std::size_t place = 0; place < good.size(); ++place) {
      std::vector<std::byte> changed = good;
      changed[place] ^= std::byte{1};
      EXPECT_NE(refusal(changed), "") << place;
    }
  }
}

TEST_F(SignedEntries, AKeyFileThatIsNoneIsNamed) {
  const auto bytes = encode_signed(key, entry_, in_folder("nothing"));
  ASSERT_FALSE(bytes);
  EXPECT_THAT(bytes.error().message, HasSubstr("nothing' cannot be used"));
}

}  // namespace
}  // namespace regard
