// Numbers that locate sequences and pages in a KV cache.
#include <gmock/gmock.h>

#include "tensor_set.h"

namespace regard {
namespace {

using ::testing::HasSubstr;
using Integers = std::vector<std::int32_t>;

struct Numbers {
  regard_role role;
  Integers values;
};

/// The message of the refusal; empty if the values are accepted. Without lengths_q all query rows count.
std::string refusal(const char* problem, const std::vector<Numbers>& given) {
  TensorSet tensors(*parse(problem));
  const bool has_queries =
      std::ranges::any_of(given, [](const Numbers& one) { return one.role == REGARD_LENGTHS_Q; });
  if (!has_queries) tensors[REGARD_LENGTHS_Q].data = nullptr;
  for (const Numbers& numbers : given) tensors.write(numbers.role, numbers.values);
  if (const Status status = check_tensors(tensors.problem, tensors.arguments); !status)
    return status.error().message;
  const Status status = check_host_values(tensors.problem, tensors.arguments);
  return status ? "" : status.error().message;
}

TEST(CacheValues, APageTableIsReadAsFarAsTheLengthsNeed) {
  const char* problem = "fwd b=2 h=1 sq=1 sk=40 d=16 paged=16 pages=4 lengths";
  const Numbers lengths{REGARD_LENGTHS_K, {40, 16}};
  EXPECT_EQ(refusal(problem, {lengths, {REGARD_PAGE_TABLE, {3, 0, 1, 2, -9, 77}}}), "");
  EXPECT_THAT(refusal(problem, {lengths, {REGARD_PAGE_TABLE, {3, 0, 4, 2, 0, 0}}}),
              HasSubstr("page_table[2] is 4; the cache has 4 pages"));
  EXPECT_THAT(refusal(problem, {lengths, {REGARD_PAGE_TABLE, {3, 0, 1, -1, 0, 0}}}),
              HasSubstr("page_table[3] is -1"));
}

TEST(CacheValues, NewTokensNeedRoomAndPages) {
  const char* problem = "append b=1 h=1 sq=0 sk=48 d=16 snew=2 paged=16 lengths";
  EXPECT_EQ(refusal(problem, {{REGARD_LENGTHS_K, {30}}, {REGARD_PAGE_TABLE, {0, 1, 9}}}), "");
  EXPECT_THAT(refusal(problem, {{REGARD_LENGTHS_K, {31}}, {REGARD_PAGE_TABLE, {0, 1, 9}}}),
              HasSubstr("page_table[2] is 9"));
  EXPECT_THAT(refusal(problem, {{REGARD_LENGTHS_K, {47}}}),
              HasSubstr("sequence 0 has 47 keys, and 2 new tokens do not fit; the cache has room for 48"));
}

TEST(CacheValues, APageListIsChecked) {
  const char* problem = "fwd b=2 h=1 sq=1 sk=40 d=16 paged=16 pages=4 table=sglang";
  const auto refused = [&](Integers offsets, Integers list, Integers last) {
    return refusal(problem, {{REGARD_PAGE_OFFSETS, std::move(offsets)},
                             {REGARD_PAGE_LIST, std::move(list)},
                             {REGARD_LAST_PAGE_LENGTHS, std::move(last)}});
  };
  EXPECT_EQ(refused({0, 3, 4}, {0, 1, 2, 3}, {8, 16}), "");
  EXPECT_EQ(refused({0, 0, 1}, {3}, {0, 1}), "");
  EXPECT_THAT(refused({1, 3, 4}, {0, 1, 2, 3}, {8, 16}), HasSubstr("page_offsets[0] is 1"));
  EXPECT_THAT(refused({0, 3, 2}, {0, 1, 2, 3}, {8, 16}), HasSubstr("page_offsets[2] is 2, below"));
  EXPECT_THAT(refused({0, 3, 7}, {0, 1, 2, 3}, {8, 16}), HasSubstr("past the 6 pages of page_list"));
  EXPECT_THAT(refused({0, 3, 4}, {0, 1, 2, 3}, {9, 16}),
              HasSubstr("last_page_lengths[0] is 9 after 2 full pages"));
  EXPECT_THAT(refused({0, 3, 4}, {0, 1, 2, 3}, {8, 0}), HasSubstr("last_page_lengths[1] is 0"));
  EXPECT_THAT(refused({0, 3, 4}, {0, 1, 2, 4}, {8, 16}),
              HasSubstr("page_list[3] is 4; the cache has 4 pages"));
}

TEST(CacheValues, APageListCountsNewTokens) {
  const char* problem = "fwd b=2 h=1 sq=2 sk=40 d=16 snew=2 paged=7 pages=9 table=sglang mask=causal";
  const auto refused = [&](Integers offsets, Integers last) {
    return refusal(problem, {{REGARD_PAGE_OFFSETS, std::move(offsets)},
                             {REGARD_PAGE_LIST, {5, 0, 8}},
                             {REGARD_LAST_PAGE_LENGTHS, std::move(last)}});
  };
  EXPECT_EQ(refused({0, 1, 3}, {2, 7}), "");
  EXPECT_EQ(refused({0, 0, 3}, {0, 7}), "") << "a sequence without pages takes no tokens";
  EXPECT_THAT(refused({0, 1, 3}, {1, 7}),
              HasSubstr("sequence 0 has 1 rows in its pages, fewer than its 2 new tokens"));
}

TEST(CacheValues, ANegativeLengthIsASequenceWithoutKeys) {
  for (const char* problem : {"fwd b=2 h=1 sq=1 sk=40 d=16 paged=16 pages=4 lengths",
                              "fwd b=2 h=1 sq=1 sk=40 d=16 paged=16 pages=4 lengths snew=1",
                              "append b=2 h=1 sq=1 sk=40 d=16 paged=16 pages=4 lengths snew=1"}) {
    const Numbers table{REGARD_PAGE_TABLE, {3, 0, 1, -1, -1, -1}};
    EXPECT_EQ(refusal(problem, {{REGARD_LENGTHS_K, {39, -1}}, table}), "") << problem;
    EXPECT_THAT(refusal(problem, {{REGARD_LENGTHS_K, {39, 1}}, table}), HasSubstr("page_table[3] is -1"))
        << problem;
  }
  for (const char* cache : {"cache=2", "snew=1", "left_padding"}) {
    const std::string problem = "fwd b=2 h=1 sq=1 sk=8 d=16 lengths " + std::string(cache);
    EXPECT_EQ(refusal(problem.c_str(), {{REGARD_LENGTHS_K, {3, -1}}}), "") << problem;
  }
  EXPECT_THAT(refusal("fwd b=2 h=1 sq=1 sk=8 d=16 lengths", {{REGARD_LENGTHS_K, {3, -1}}}),
              HasSubstr("lengths_k[1] is -1"));
}

TEST(CacheValues, PackedNewTokensNeedRoom) {
  const char* problem = "append b=3 h=1 sq=0 sk=8 d=16 snew=4 tnew=7 lengths";
  EXPECT_EQ(refusal(problem, {{REGARD_OFFSETS_NEW, {0, 4, 4, 6}}, {REGARD_LENGTHS_K, {4, 8, 0}}}), "");
  EXPECT_THAT(refusal(problem, {{REGARD_OFFSETS_NEW, {0, 4, 5, 6}}, {REGARD_LENGTHS_K, {4, 8, 0}}}),
              HasSubstr("sequence 1 has 8 keys, and 1 new tokens do not fit"));
  EXPECT_THAT(refusal(problem, {{REGARD_OFFSETS_NEW, {0, 5, 5, 6}}}),
              HasSubstr("sequence 0 has 5 rows, more than snew=4"));
  EXPECT_THAT(refusal(problem, {{REGARD_OFFSETS_NEW, {0, 4, 3, 6}}}),
              HasSubstr("offsets_new[2] is 3, below"));
  EXPECT_THAT(refusal(problem, {{REGARD_OFFSETS_NEW, {0, 4, 4, 8}}}),
              HasSubstr("offsets_new[3] is 8, past the 7 tokens"));
}

TEST(CacheValues, LeftPaddingIsAPartOfTheLength) {
  for (const char* problem : {"fwd b=2 h=1 sq=1 sk=8 d=16 left_padding lengths",
                              "fwd b=2 h=1 sq=1 sk=8 d=16 left_padding lengths cache=2",
                              "fwd b=2 h=1 sq=1 sk=8 d=16 left_padding lengths snew=1"}) {
    EXPECT_EQ(refusal(problem, {{REGARD_LENGTHS_K, {4, 0}}, {REGARD_LEFT_PADDING, {4, 0}}}), "");
    EXPECT_EQ(refusal(problem, {{REGARD_LENGTHS_K, {4, -1}}, {REGARD_LEFT_PADDING, {4, 9}}}), "") << "unused";
    EXPECT_THAT(
        refusal(problem, {{REGARD_LENGTHS_K, {4, 3}}, {REGARD_LEFT_PADDING, {4, 4}}}),
        HasSubstr("left_padding[1] is 4; it is at least 0 and at most the length of the keys, here 3"));
    EXPECT_THAT(refusal(problem, {{REGARD_LENGTHS_K, {4, 3}}, {REGARD_LEFT_PADDING, {-1, 3}}}),
                HasSubstr("left_padding[0] is -1"));
  }
  EXPECT_THAT(refusal("fwd b=1 h=1 sq=1 sk=8 d=16 left_padding", {{REGARD_LEFT_PADDING, {9}}}),
              HasSubstr("here 8"));
}

/// Keys 0 to 63 of a sequence, four pages of 16.
TEST(CacheValues, PagesThatNoQuerySeesAreNotRead) {
  const auto refused = [](const std::string& words, const Numbers& more, Integers pages) {
    const std::string problem = "fwd b=1 h=1 sk=64 d=16 paged=16 pages=4 lengths " + words;
    const std::vector<Numbers> numbers = {
        {REGARD_LENGTHS_K, {64}}, {REGARD_PAGE_TABLE, std::move(pages)}, more};
    return refusal(problem.c_str(), numbers);
  };
  const Numbers queries{REGARD_LENGTHS_Q, {2}};
  // The last query sees keys 33 to 63, the one before it key 32 as well.
  EXPECT_EQ(refused("sq=2 mask=window:30,0", queries, {-1, 77, 2, 3}), "");
  EXPECT_THAT(refused("sq=2 mask=window:31,0", queries, {-1, 77, 2, 3}), HasSubstr("page_table[1] is 77"));
  EXPECT_THAT(refused("sq=2 mask=window:30,0", queries, {-1, 77, 4, 3}), HasSubstr("page_table[2] is 4"));
  EXPECT_EQ(refused("sq=9 mask=window:30,0", queries, {-1, 77, 2, 3}), "") << "logical queries count";
  EXPECT_THAT(refused("sq=2 mask=causal", queries, {-1, 77, 2, 3}), HasSubstr("page_table[0] is -1"));
  EXPECT_EQ(refused("sq=2", {REGARD_LENGTHS_Q, {0}}, {-1, -1, -1, -1}), "") << "no queries";
  // Sink tokens are seen by every query.
  EXPECT_EQ(refused("sq=2 mask=window:30,0,sink=16", queries, {0, 77, 2, 3}), "");
  EXPECT_THAT(refused("sq=2 mask=window:30,0,sink=16", queries, {-1, 77, 2, 3}),
              HasSubstr("page_table[0] is -1"));
  EXPECT_THAT(refused("sq=2 mask=window:30,0,sink=17", queries, {0, 77, 2, 3}),
              HasSubstr("page_table[1] is 77"));
  // From the top left, the first query has the diagonal of key 0.
  EXPECT_THAT(refused("sq=2 mask=window:3,0,top_left", queries, {-1, 1, 2, 3}),
              HasSubstr("page_table[0] is -1"));
  // Padding moves sink tokens and the top-left diagonal.
  const std::string padded = "sq=2 left_padding mask=window:3,0";
  const Numbers padding{REGARD_LEFT_PADDING, {20}};
  EXPECT_EQ(refused(padded + ",sink=4", padding, {-1, 1, -1, 3}), "");
  EXPECT_THAT(refused(padded + ",sink=4", padding, {-1, -1, -1, 3}), HasSubstr("page_table[1] is -1"));
  EXPECT_EQ(refused("sq=2 left_padding", padding, {-1, 1, 2, 3}), "");
}

TEST(CacheValues, PagesOfNewTokensAreNeededLeftOfAWindowToo) {
  const auto refused = [](const char* words, Integers pages) {
    const std::string problem = "b=1 h=1 sk=64 d=16 paged=16 pages=4 lengths snew=20 " + std::string(words);
    return refusal(problem.c_str(), {{REGARD_LENGTHS_K, {44}}, {REGARD_PAGE_TABLE, std::move(pages)}});
  };
  EXPECT_EQ(refused("fwd sq=1 mask=window:0,0", {-1, -1, 2, 3}), "");
  EXPECT_THAT(refused("fwd sq=1 mask=window:0,0", {-1, -1, -1, 3}), HasSubstr("page_table[2] is -1"));
  EXPECT_EQ(refused("append sq=0", {-1, -1, 2, 3}), "");
  EXPECT_THAT(refused("append sq=0", {-1, -1, 2, -1}), HasSubstr("page_table[3] is -1"));
}

TEST(CacheValues, ASequenceThatTakesNothingNeedsNoPages) {
  const Numbers offsets{REGARD_OFFSETS_NEW, {0, 0, 2}}, lengths{REGARD_LENGTHS_K, {5, 30}};
  const char* problem = "append b=2 h=1 sq=0 sk=64 d=16 paged=16 pages=4 lengths snew=2 tnew=2";
  EXPECT_EQ(refusal(problem, {offsets, lengths, {REGARD_PAGE_TABLE, {-1, -1, -1, -1, -1, 3, -1, -1}}}), "");
  EXPECT_THAT(refusal(problem, {offsets, lengths, {REGARD_PAGE_TABLE, {-1, -1, -1, -1, -1, 4, -1, -1}}}),
              HasSubstr("page_table[5] is 4"));
}

TEST(CacheValues, ASlotIsARowOfTheCache) {
  const auto refused = [](const char* words, Integers slots) {
    TensorSet tensors(*parse("append b=2 h=1 sq=0 sk=8 d=16 tnew=3 " + std::string(words)));
    if (tensors.problem.slots == SlotType::int64)
      tensors.write(REGARD_SLOTS, std::vector<std::int64_t>(slots.begin(), slots.end()));
    else
      tensors.write(REGARD_SLOTS, slots);
    EXPECT_TRUE(check_tensors(tensors.problem, tensors.arguments));
    const Status status = check_host_values(tensors.problem, tensors.arguments);
    return status ? "" : status.error().message;
  };
  for (const char* slots : {"slots=int32 ", "slots=int64 "}) {
    const std::string dense = std::string(slots) + "cache=3", paged = std::string(slots) + "paged=5 pages=3";
    EXPECT_EQ(refused(dense.c_str(), {23, -1, 0}), "");
    EXPECT_THAT(refused(dense.c_str(), {23, -9, 24}), HasSubstr("slots[2] is 24; the cache has 24 rows"));
    EXPECT_EQ(refused(paged.c_str(), {14, -1, 0}), "");
    EXPECT_THAT(refused(paged.c_str(), {14, 15, 0}), HasSubstr("slots[1] is 15; the cache has 15 rows"));
    EXPECT_EQ(refused(slots, {15, -1, 0}), "");
    EXPECT_THAT(refused(slots, {16, -1, 0}), HasSubstr("the cache has 16 rows"));
  }
  TensorSet tensors(*parse("append b=1 h=1 sq=0 sk=8 d=16 tnew=1 slots=int64"));
  tensors.write(REGARD_SLOTS, std::vector<std::int64_t>{std::int64_t{1} << 32});
  EXPECT_FALSE(check_host_values(tensors.problem, tensors.arguments));
}

TEST(CacheValues, PositionsAreRowsOfTheRopeTables) {
  const auto refused = [](const std::string& words, Integers lengths, Integers positions) {
    std::vector<Numbers> numbers;
    if (!lengths.empty()) numbers.push_back({REGARD_LENGTHS_K, std::move(lengths)});
    if (!positions.empty()) numbers.push_back({REGARD_POSITIONS, std::move(positions)});
    return refusal((words + " b=2 h=1 sk=40 d=16 rope=half rotary=6").c_str(), numbers);
  };
  const std::string append = "append lengths snew=2 rope_rows=30";
  EXPECT_EQ(refused(append, {28, -1}, {}), "");
  EXPECT_THAT(refused(append, {0, 29}, {}),
              HasSubstr("sequence 1 has positions 29 to 30; they are rows of the "
                        "rope tables, which have rows 0 to 29"));
  EXPECT_EQ(refused("append lengths snew=2", {38, 0}, {}), "") << "tables of sk rows";
  // Queries are rotated as well, all to the same position where there is no mask.
  EXPECT_EQ(refused("fwd sq=5 lengths snew=2 rope_rows=30", {28, 28}, {}), "");
  EXPECT_THAT(refused("fwd sq=5 lengths snew=2 rope_rows=30 mask=causal", {28, 0}, {}),
              HasSubstr("sequence 0 has positions 28 to 32"));
  const std::string given = append + " positions=sequence";
  EXPECT_EQ(refused(given, {38, 38}, {0, 28}), "");
  EXPECT_THAT(refused(given, {38, 38}, {29, 0}), HasSubstr("sequence 0 has positions 29 to 30"));
  EXPECT_THAT(refused(given, {38, 38}, {0, -1}), HasSubstr("sequence 1 has positions -1 to 0"));
  EXPECT_EQ(refused(given, {38, -1}, {0, -1}), "") << "nothing is written";
  const std::string each = append + " positions=token";
  EXPECT_EQ(refused(each, {38, 38}, {0, 29, 29, 0}), "");
  EXPECT_THAT(refused(each, {38, 38}, {0, 29, 29, 30}),
              HasSubstr("positions[3] is 30; it is a row of the rope tables, which have rows 0 to 29"));
  EXPECT_EQ(refused(each, {38, -1}, {0, 29, 29, 30}), "");
  EXPECT_THAT(refused(each, {38, 38}, {-1, 0, 0, 0}), HasSubstr("positions[0] is -1"));
}

TEST(CacheValues, PositionsOfPackedTokensFollowTheirOffsets) {
  const char* problem = "append b=2 h=1 sk=40 d=16 rope=half rotary=6 snew=2 tnew=4 positions=token";
  const Numbers offsets{REGARD_OFFSETS_NEW, {0, 1, 3}};
  EXPECT_EQ(refusal(problem, {offsets, {REGARD_POSITIONS, {39, 0, 39, 40}}}), "");
  EXPECT_THAT(refusal(problem, {offsets, {REGARD_POSITIONS, {39, 0, 40, 0}}}),
              HasSubstr("positions[2] is 40"));
  const char* slots = "append b=2 h=1 sk=40 d=16 rope=half rotary=6 tnew=3 slots=int32 positions=token";
  EXPECT_EQ(refusal(slots, {{REGARD_SLOTS, {5, -1, 6}}, {REGARD_POSITIONS, {39, -1, 0}}}), "");
  EXPECT_THAT(refusal(slots, {{REGARD_SLOTS, {5, -1, 6}}, {REGARD_POSITIONS, {39, -1, 40}}}),
              HasSubstr("positions[2] is 40"));
}

TEST(CacheValues, ACacheIndexPicksASequence) {
  const char* problem = "append b=2 h=1 sq=0 sk=8 d=16 snew=1 cache=5";
  EXPECT_EQ(refusal(problem, {{REGARD_CACHE_INDEX, {4, 0}}}), "");
  EXPECT_THAT(refusal(problem, {{REGARD_CACHE_INDEX, {4, 5}}}),
              HasSubstr("cache_index[1] is 5; the cache has 5 sequences"));
}

}  // namespace
}  // namespace regard
