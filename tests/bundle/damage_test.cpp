// Damage to the bytes of a bundle never causes a crash or a wrong kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bundle/signing.h"
#include "forged.h"

namespace regard {
namespace {

class Damage : public BundleTest {
 protected:
  void SetUp() override {
    const Result<PublicKey> made = make_key_file(in_folder("key"));
    ASSERT_TRUE(made);
    trusted_ = {*made};
    const std::string path = write("a", {input_number(1, 20), input_number(2, 20)});
    unsigned_ = read_bytes(path);
    ASSERT_TRUE(sign_bundle(path, in_folder("key")));
    signed_ = read_bytes(path);
  }
  std::vector<PublicKey> trusted_;
  std::string unsigned_, signed_;
};

TEST_F(Damage, EveryTruncationIsRefused) {
  EXPECT_EQ(wrong_with(signed_, trusted_), "");
  for (std::size_t length = 0; length < signed_.size(); ++length) {
    const std::string cut = signed_.substr(0, length);
    EXPECT_NE(wrong_with(cut, trusted_), "") << length;
    const bool is_the_unsigned_one = length == unsigned_.size();
    EXPECT_EQ(wrong_with(cut) == "", is_the_unsigned_one) << length;
  }
}

TEST_F(Damage, EveryFlippedBitIsRefused) {
  for (std::size_t i = 0; i < signed_.size(); ++i) {
    for (const int bit : {1, 16, 128}) {
      std::string flipped = signed_;
      flipped[i] = static_cast<char>(flipped[i] ^ bit);
      EXPECT_NE(wrong_with(flipped, trusted_), "") << i;
      if (i < unsigned_.size()) {
        EXPECT_NE(wrong_with(flipped), "") << i;
      }
    }
  }
}

TEST_F(Damage, RandomBytesAreRefused) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = unsigned_;
    const std::size_t from = round % 2 == 0 ? 0 : 12, size = random() % 600;
    bytes.resize(from + size);
    for (std::size_t i = from; i < bytes.size(); ++i) bytes[i] = static_cast<char>(random());
    EXPECT_NE(wrong_with(bytes), "");
  }
}

// A kernel's bytes are checked only when it is requested, and do not affect other kernels.
TEST_F(Damage, OfOneKernelLeavesTheOthers) {
  const std::string path = write_kernels("b", {1, 2, 3});
  std::string bytes = read_bytes(path);
  const BundleKernel second = open(path)->kernels()[1];
  for (std::uint64_t i = 0; i < second.compressed_bytes; ++i) bytes[second.offset + i] = 'x';
  std::ofstream(path, std::ios::binary) << bytes;
  const auto bundle = open(path);
  EXPECT_TRUE(bundle->read(bundle->kernels()[0]));
  EXPECT_TRUE(bundle->read(bundle->kernels()[2]));
  const Result<CacheEntry> entry = bundle->read(bundle->kernels()[1]);
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().message, "its kernel 'cpu-any kernel_2' is damaged: the checksum is wrong");
}

}  // namespace
}  // namespace regard
