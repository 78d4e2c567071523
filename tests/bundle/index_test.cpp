// A wrong index with correct checksums is refused in one sentence, and nothing is read out of bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "forged.h"

namespace regard {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t half = 1ull << 63, all = ~0ull;

/// Damage to the second of three sound kernels, and the sentence that refuses it.
struct Forgery {
  const char* sentence;
  std::function<void(Forged&)> spoil;
};

void expect_refused(const std::vector<Forgery>& table) {
  for (const auto& [sentence, spoil] : table) {
    Forged forged = Forged::sound({1, 2, 3});
    spoil(forged);
    const auto bundle = open_bytes(forged.file());
    ASSERT_FALSE(bundle) << sentence;
    EXPECT_EQ(bundle.error().kind, ErrorKind::invalid);
    EXPECT_THAT(bundle.error().message, HasSubstr(sentence));
  }
}

TEST(Index, TheLayoutIsTheOneOfTheDocument) {
  const BundleTestFiles files;
  EXPECT_EQ(read_bytes(files.write_kernels("a", {1, 2, 3})), Forged::sound({1, 2, 3}).file());
  EXPECT_EQ(wrong_with(Forged::sound({1, 2, 3}).file()), "");
  EXPECT_EQ(wrong_with(Forged::sound({}).file()), "");
}

TEST(Index, AForgedHeaderIsRefused) {
  expect_refused({
      {"it is not a bundle of kernels", [](Forged& f) { f.magic[0] = 'r'; }},
      {"it has schema 0, and this Regard reads schema 1: an older Regard made it",
       [](Forged& f) { f.schema = 0; }},
      {"it has schema 2, and this Regard reads schema 1: a newer Regard made it",
       [](Forged& f) { f.schema = 2; }},
      {"its header is damaged", [](Forged& f) { f.zero = 1; }},
      {"its index overlaps its header", [](Forged& f) { f.index_offset = 63; }},
      {"its index is beyond the end of the file", [](Forged& f) { f.index_offset = 10'000; }},
      {"its index is beyond the end of the file", [](Forged& f) { f.index_offset = half; }},
      {"its index is beyond the end of the file", [](Forged& f) { f.index_offset = all; }},
      {"its index is beyond the end of the file", [](Forged& f) { f.index_bytes = 10'000; }},
      {"its index has 9223372036854775808 bytes, and may have 67108864",
       [](Forged& f) { f.index_bytes = half; }},
      {"its index has 18446744073709551615 bytes, and may have 67108864",
       [](Forged& f) { f.index_bytes = all; }},
  });
}

TEST(Index, AForgedListIsRefused) {
  expect_refused({
      {"its index has fewer kernels than it says", [](Forged& f) { f.count = 100; }},
      {"its index has fewer kernels than it says", [](Forged& f) { f.count = half; }},
      {"its index has fewer kernels than it says", [](Forged& f) { f.count = all; }},
      {"its description", [](Forged& f) { f.count = 2; }},
      {"its description reaches beyond its index", [](Forged& f) { f.about_bytes = 10'000; }},
      {"its description reaches beyond its index", [](Forged& f) { f.about_bytes = all; }},
      {"its index has 1 bytes too many", [](Forged& f) { f.behind_names = "x"; }},
      {"its kernel 1 has a name of 0 bytes; names have 1 to 4096",
       [](Forged& f) { f.kernels[1].name_bytes = 0; }},
      {"its kernel 1 has a name of 4097 bytes", [](Forged& f) { f.kernels[1].name_bytes = 4097; }},
      {"its kernel 1 has a name of 18446744073709551615", [](Forged& f) { f.kernels[1].name_bytes = all; }},
      {"the name of its kernel 1 reaches beyond its index",
       [](Forged& f) { f.kernels[1].name_bytes = 4096; }},
  });
}

TEST(Index, AForgedKernelIsRefused) {
  expect_refused({
      {"its kernel 1 ('cpu-any kernel_2') overlaps what is before it",
       [](Forged& f) { --f.kernels[1].offset; }},
      {"its kernel 1 ('cpu-any kernel_2') overlaps what is before it",
       [](Forged& f) { f.kernels[1].offset = 0; }},
      {"its kernel 1 ('cpu-any kernel_2') has a gap before it",
       [](Forged& f) {
         ++f.kernels[1].offset;
         --f.kernels[1].compressed_bytes;
       }},
      {"its kernel 1 ('cpu-any kernel_2') reaches beyond the index",
       [](Forged& f) { f.kernels[1].offset = half; }},
      {"its kernel 1 ('cpu-any kernel_2') reaches beyond the index",
       [](Forged& f) { f.kernels[1].offset = all; }},
      {"its kernel 1 ('cpu-any kernel_2') reaches beyond the index",
       [](Forged& f) { f.kernels[1].compressed_bytes = 10'000; }},
      {"its kernel 1 ('cpu-any kernel_2') reaches beyond the index",
       [](Forged& f) { f.kernels[1].compressed_bytes = all - f.kernels[1].offset + 1; }},
      {"its kernel 1 ('cpu-any kernel_2') has no bytes",
       [](Forged& f) { f.kernels[1].compressed_bytes = 0; }},
      {"its kernel 2 ('cpu-any kernel_3') overlaps what is before it",
       [](Forged& f) { ++f.kernels[1].compressed_bytes; }},
      {"its kernel 2 ('cpu-any kernel_3') has a gap before it",
       [](Forged& f) { --f.kernels[1].compressed_bytes; }},
      {"it has 1 bytes before its index that belong to no kernel",
       [](Forged& f) { --f.kernels[2].compressed_bytes; }},
      {"it has 4 bytes before its index that belong to no kernel", [](Forged& f) { f.compressed += "more"; }},
      {"its kernel 1 ('cpu-any kernel_2') is smaller than an entry can be",
       [](Forged& f) { f.kernels[1].bytes = 7; }},
      {"its kernel 1 ('cpu-any kernel_2') is larger than an entry may be",
       [](Forged& f) { f.kernels[1].bytes = 8 + largest_manifest_bytes + largest_payload_bytes + 1; }},
      {"its kernel 1 ('cpu-any kernel_2') is larger than an entry may be",
       [](Forged& f) { f.kernels[1].bytes = half; }},
      {"its kernel 1 ('cpu-any kernel_2') is larger than an entry may be",
       [](Forged& f) { f.kernels[1].bytes = all; }},
  });
}

TEST(Index, KernelsAreInOrderAndEachOnce) {
  EXPECT_EQ(wrong_with(Forged::sound({2, 1}).file()), "its kernel 1 ('cpu-any kernel_1') is not in order");
  EXPECT_EQ(wrong_with(Forged::sound({1, 1}).file()), "its kernel 1 ('cpu-any kernel_1') is in it twice");
  Forged forged = Forged::sound({1, 1});
  forged.kernels[0].source = std::min(sha256("a"), sha256("b"));
  forged.kernels[1].source = std::max(sha256("a"), sha256("b"));
  EXPECT_EQ(wrong_with(forged.file()), "");
  std::swap(forged.kernels[0].source, forged.kernels[1].source);
  EXPECT_EQ(wrong_with(forged.file()), "its kernel 1 ('cpu-any kernel_1') is not in order");
}

TEST(Index, AForgedDescriptionIsRefused) {
  const std::pair<const char*, const char*> table[] = {
      {"", "its description is not valid at byte "},
      {"null", "its description is not a JSON object"},
      {"[]", "its description is not a JSON object"},
      {R"({"title":"a","version":"1","undeclared":"jit"} x)", "its description is not valid at byte "},
      {R"({"version":"1","undeclared":"jit"})", "its description has no 'title'"},
      {R"({"title":"a","version":"1","undeclared":"jit","tuning":1})",
       "its description has a 'tuning' that is not a text"},
      {R"({"title":"a","version":"1","undeclared":"jitt"})",
       "its description says undeclared = 'jitt'; did you mean 'jit'?"},
      {R"({"title":"a","version":"1","undeclared":"jit","titel":"b"})",
       "its description has the unknown member 'titel'; did you mean 'title'?"},
      {R"({"title":"a","title":"a","version":"1","undeclared":"jit"})", "its description has 'title' twice"},
      {R"({"title":1,"version":"1","undeclared":"jit"})", "its description has a 'title' that is not a text"},
      {R"({"title":{"a":"b"},"version":"1","undeclared":"jit"})",
       "its description has a 'title' that is not a text"},
  };
  for (const auto& [about, sentence] : table) {
    Forged forged = Forged::sound({1});
    forged.about = about;
    const auto bundle = open_bytes(forged.file());
    ASSERT_FALSE(bundle) << about;
    EXPECT_THAT(bundle.error().message, HasSubstr(sentence)) << about;
  }
}

TEST(Index, WhatFollowsItIsASignatureOrNothing) {
  Forged forged = Forged::sound({1});
  forged.behind_index = "x";
  EXPECT_EQ(wrong_with(forged.file()), "it has 1 bytes after its index, and a signature has 104");
  forged.behind_index = std::string(1'000'000, 'x');
  EXPECT_THAT(wrong_with(forged.file()), HasSubstr("it has more bytes after its index than a signature has"));
  forged.behind_index = std::string(104, 'x');
  EXPECT_EQ(wrong_with(forged.file()), "what follows its index is not a signature");
}

TEST(Index, ADamagedIndexIsRefused) {
  std::string bytes = Forged::sound({1}).file();
  bytes.back() ^= 1;
  EXPECT_EQ(wrong_with(bytes), "its index is damaged: the checksum is wrong");
}

}  // namespace
}  // namespace regard
