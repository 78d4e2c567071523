// Packed bytes that are wrong although their checksums are right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zstd.h>

#include "forged.h"

namespace regard {
namespace {

using testing::HasSubstr;

constexpr int quick = 1;

std::string entry_row(const std::string& manifest, const std::string& payload, std::uint64_t says = ~0ull) {
  const std::uint64_t manifest_bytes = says == ~0ull ? manifest.size() : says;
  return std::string(reinterpret_cast<const char*>(&manifest_bytes), sizeof manifest_bytes) + manifest +
         payload;
}

std::string frame_of(const std::string& row) {
  std::string frame(ZSTD_compressBound(row.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), row.data(), row.size(), quick));
  return frame;
}

/// A frame that does not state the size of its content.
std::string frame_without_size(const std::string& row) {
  ZSTD_CCtx* const stream = ZSTD_createCCtx();
  std::string frame(ZSTD_compressBound(row.size()) + 100, '\0');
  ZSTD_outBuffer out{frame.data(), frame.size(), 0};
  ZSTD_inBuffer in{row.data(), row.size(), 0}, end{nullptr, 0, 0};
  ZSTD_compressStream2(stream, &out, &in, ZSTD_e_continue);
  while (ZSTD_compressStream2(stream, &out, &end, ZSTD_e_end) != 0) {
  }
  ZSTD_freeCCtx(stream);
  frame.resize(out.pos);
  return frame;
}

/// The error of a bundle with one kernel that has these packed bytes.
std::string wrong_with_compressed(const std::string& compressed, std::uint64_t entry_bytes) {
  Forged forged;
  forged.add("a kernel", sha256("source"), sha256("identity"), compressed, entry_bytes);
  return wrong_with(forged.file());
}

TEST(CompressedKernel, OfAnyRightFrameIsRead) {
  const std::string row = entry_row("{\"a\":1}", std::string(5000, 'x'));
  EXPECT_EQ(wrong_with_compressed(frame_of(row), row.size()), "");
  const std::string empty = entry_row("{\"a\":1}", "");
  EXPECT_EQ(wrong_with_compressed(frame_of(empty), empty.size()), "");
}

TEST(CompressedKernel, ThatIsNoFrameIsRefused) {
  EXPECT_THAT(wrong_with_compressed("not zstd at all", 20),
              HasSubstr("its kernel 'a kernel' is damaged: it cannot be "));
  const std::string row = entry_row("{\"a\":1}", std::string(5000, 'x'));
  const std::string frame = frame_of(row);
  for (std::size_t length = 1; length < frame.size(); ++length)
    EXPECT_NE(wrong_with_compressed(frame.substr(0, length), row.size()), "") << length;
}

TEST(CompressedKernel, WithMoreThanOneFrameIsRefused) {
  const std::string row = entry_row("{\"a\":1}", "x"), more = frame_of("more");
  const std::string skipped("\x50\x2a\x4d\x18\x04\x00\x00\x00more", 12);
  EXPECT_THAT(wrong_with_compressed(frame_of(row) + more, row.size() + 4),
              HasSubstr("it has more than one frame"));
  EXPECT_THAT(wrong_with_compressed(frame_of(row) + skipped, row.size()),
              HasSubstr("it has more than one frame"));
  EXPECT_THAT(wrong_with_compressed(skipped + frame_of(row), row.size()),
              HasSubstr("it has more than one frame"));
  EXPECT_THAT(wrong_with_compressed(frame_of(row) + "x", row.size()),
              HasSubstr("it has more than one frame"));
}

TEST(CompressedKernel, OfAnotherSizeIsRefused) {
  const std::string row = entry_row("{\"a\":1}", std::string(5000, 'x'));
  const char* const sentence = "its frame says another size than the index";
  for (const std::uint64_t bytes : {row.size() - 1, row.size() + 1, std::size_t{8}})
    EXPECT_THAT(wrong_with_compressed(frame_of(row), bytes), HasSubstr(sentence)) << bytes;
  EXPECT_THAT(wrong_with_compressed(frame_without_size(row), row.size()), HasSubstr(sentence));
}

// A frame that holds 1 GiB of zeros takes some 32 KiB.
TEST(CompressedKernel, ABombTakesNoMemory) {
  const auto most_memory = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const std::string row = entry_row("{\"a\":1}", std::string(16 << 20, '\0'));
  const std::string bomb = frame_of(row);
  // The index states 5,000 bytes for both. `lies` states that in its own frame header as well: there the size
  // takes 4 bytes, from index 5 or 6 on.
  std::string lies = bomb;
  ASSERT_EQ(static_cast<unsigned char>(lies[4]) >> 6, 2) << "the size has 4 bytes";
  const std::size_t size_at = (lies[4] & 0x20) != 0 ? 5 : 6;
  const std::uint32_t little = 5000;
  std::memcpy(lies.data() + size_at, &little, sizeof little);
  const long before = most_memory();
  EXPECT_THAT(wrong_with_compressed(bomb, 5000), HasSubstr("its frame says another size than the index"));
  EXPECT_THAT(wrong_with_compressed(lies, 5000), HasSubstr("it cannot be unpacked"));
  EXPECT_LT(most_memory() - before, 8 * 1024) << "KiB";
}

TEST(CompressedKernel, WhoseManifestIsWrongIsRefused) {
  const std::tuple<std::string, const char*> table[] = {
      {entry_row("{\"a\":1}", "x", 9), "its manifest reaches beyond its end"},
      {entry_row("{\"a\":1}", "x", 1ull << 63), "its manifest reaches beyond its end"},
      {entry_row("{\"a\":1}", "x", ~0ull - 1), "its manifest reaches beyond its end"},
      {entry_row("{\"a\":1}", "x", 6), "its manifest is not"},
      {entry_row("", "x"), "its manifest is not a JSON object"},
      {entry_row("{\"a\":1,\"a\":1}", "x"), "its manifest has 'a' twice"},
      {entry_row("{\"a\":\"" + std::string(largest_manifest_bytes, 'a') + "\"}", ""),
       "it is larger than an entry may be"},
  };
  for (const auto& [row, sentence] : table)
    EXPECT_THAT(wrong_with_compressed(frame_of(row), row.size()), HasSubstr(sentence));
}

}  // namespace
}  // namespace regard
