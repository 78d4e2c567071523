#include "base/digest.h"

#include <gtest/gtest.h>

namespace regard {
namespace {

TEST(Sha256, KnownAnswers) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, BytesAndTextAgree) {
  const std::byte bytes[] = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  EXPECT_EQ(sha256(bytes), sha256("abc"));
  EXPECT_NE(sha256("abc"), sha256(std::string_view("abc\0", 4)));
}

}  // namespace
}  // namespace regard
