// Merging several bundles into one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "bundle/merge.h"
#include "bundle/signing.h"
#include "forged.h"

namespace regard {
namespace {

using testing::HasSubstr;

class Merge : public BundleTest {
 protected:
  /// The error of the merge, or empty.
  std::string merge(const std::string& name, const std::vector<std::string>& paths) const {
    std::vector<std::shared_ptr<const Bundle>> parts;
    for (const std::string& path : paths) parts.push_back(open(path));
    const Status merged = merge_bundles(in_folder(name), parts, "1.2.3");
    return merged ? "" : merged.error().message;
  }
};

TEST_F(Merge, IsABundleOfAllKernels) {
  EXPECT_EQ(merge("m", {write_kernels("a", {1, 3}), write_kernels("b", {4, 2}), write_kernels("c", {})}), "");
  EXPECT_EQ(read_bytes(in_folder("m")), read_bytes(write_kernels("all", {1, 2, 3, 4})));
}

TEST_F(Merge, HasWhatIsInTwoPartsOnce) {
  EXPECT_EQ(merge("m", {write_kernels("a", {1, 2}), write_kernels("b", {2, 3})}), "");
  EXPECT_EQ(read_bytes(in_folder("m")), read_bytes(write_kernels("all", {1, 2, 3})));
}

TEST_F(Merge, MayTakeThePlaceOfAPart) {
  const std::string a = write_kernels("a", {1}), b = write_kernels("b", {2});
  EXPECT_EQ(merge("a", {a, b}), "");
  EXPECT_EQ(read_bytes(a), read_bytes(write_kernels("all", {1, 2})));
}

TEST_F(Merge, OfKernelsOfOneNameAndTwoSourcesHasBoth) {
  BundleInput other = input_number(1);
  other.source = sha256("another source");
  EXPECT_EQ(merge("m", {write_kernels("a", {1}), write("b", {other})}), "");
  const auto merged = open(in_folder("m"));
  EXPECT_EQ(merged->named("cpu-any kernel_1").size(), 2u);
  EXPECT_TRUE(merged->named("cpu-any kernel").empty());
}

TEST_F(Merge, OfTwoKernelsThatAreNotTheSameIsRefused) {
  BundleInput other = input_number(1);
  other.entry.payload[7] = std::byte{1};
  BundleInput compiled_otherwise = input_number(1);
  compiled_otherwise.identity = sha256("another compiler");
  const std::string a = write_kernels("a", {1, 2});
  for (const BundleInput& input : {other, compiled_otherwise}) {
    const std::string refusal = merge("m", {a, write("b", {input})});
    EXPECT_THAT(refusal, HasSubstr("a' and "));
    EXPECT_THAT(refusal,
                HasSubstr("b' have kernel 'cpu-any kernel_1' of the same source with different bytes"));
  }
  EXPECT_EQ(files(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(Merge, ComparesWhatIsInsideNotHowItIsPacked) {
  const BundleInput input = input_number(1);
  const std::uint64_t manifest_bytes = input.entry.manifest.size();
  std::string row(reinterpret_cast<const char*>(&manifest_bytes), 8);
  row += input.entry.manifest;
  row.append(reinterpret_cast<const char*>(input.entry.payload.data()), input.entry.payload.size());
  std::string frame(ZSTD_compressBound(row.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), row.data(), row.size(), -5));
  Forged forged;
  forged.add(input.name, input.source, input.identity, frame, row.size());
  std::ofstream(in_folder("b"), std::ios::binary) << forged.file();
  const std::string a = write_kernels("a", {1});
  EXPECT_NE(read_bytes(a), forged.file());
  EXPECT_EQ(merge("m", {a, in_folder("b")}), "");
  EXPECT_EQ(read_bytes(in_folder("m")), read_bytes(a));
}

TEST_F(Merge, OfPartsThatAnswerDifferentlyIsRefused) {
  ASSERT_TRUE(write_bundle(in_folder("b"), {"acme", "1.2.3", "error"}, {input_number(2)}));
  EXPECT_THAT(merge("m", {write_kernels("a", {1}), in_folder("b")}),
              HasSubstr("a' was built with undeclared = 'jit' and "));
  ASSERT_TRUE(write_bundle(in_folder("b"), {"other", "0.9", "jit"}, {input_number(2)}));
  EXPECT_EQ(merge("m", {write_kernels("a", {1}), in_folder("b")}), "");
  EXPECT_EQ(open(in_folder("m"))->about(), (BundleAbout{"", "1.2.3", "jit"}));
}

TEST_F(Merge, OfADamagedPartNamesIt) {
  const std::string a = write_kernels("a", {1}), b = write_kernels("b", {2});
  std::string bytes = read_bytes(b);
  bytes[80] = static_cast<char>(~bytes[80]);
  std::ofstream(b, std::ios::binary) << bytes;
  const std::string refusal = merge("m", {a, b});
  EXPECT_THAT(refusal,
              testing::EndsWith("/b: its kernel 'cpu-any kernel_2' is damaged: the checksum is wrong"));
  EXPECT_EQ(files(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(Merge, IsNotSigned) {
  ASSERT_TRUE(make_key_file(in_folder("key")));
  const std::string a = write_kernels("a", {1});
  ASSERT_TRUE(sign_bundle(a, in_folder("key")));
  EXPECT_EQ(merge("m", {a}), "");
  EXPECT_EQ(open(in_folder("m"))->signer(), std::nullopt);
}

TEST_F(Merge, OfNothingIsRefused) {
  EXPECT_EQ(merge("m", {}), "there is no bundle to merge");
}

}  // namespace
}  // namespace regard
