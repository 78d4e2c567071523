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

/// The message of the refusal; empty if the values are accepted.
std::string refusal(const char* problem, const std::vector<Numbers>& given) {
  TensorSet tensors(*parse(problem));
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
              HasSubstr("lengths_k[0] is 47 and 2 new tokens do not fit; the cache has room for 48"));
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
  EXPECT_THAT(refused({0, 3, 7}, {0, 1, 2, 3}, {8, 16}), HasSubstr("past the 6 of page_list"));
  EXPECT_THAT(refused({0, 3, 4}, {0, 1, 2, 3}, {9, 16}),
              HasSubstr("last_page_lengths[0] is 9 after 2 full pages"));
  EXPECT_THAT(refused({0, 3, 4}, {0, 1, 2, 3}, {8, 0}), HasSubstr("last_page_lengths[1] is 0"));
  EXPECT_THAT(refused({0, 3, 4}, {0, 1, 2, 4}, {8, 16}),
              HasSubstr("page_list[3] is 4; the cache has 4 pages"));
}

TEST(CacheValues, ACacheIndexPicksASequence) {
  const char* problem = "append b=2 h=1 sq=0 sk=8 d=16 snew=1 cache=5";
  EXPECT_EQ(refusal(problem, {{REGARD_CACHE_INDEX, {4, 0}}}), "");
  EXPECT_THAT(refusal(problem, {{REGARD_CACHE_INDEX, {4, 5}}}),
              HasSubstr("cache_index[1] is 5; the cache has 5 sequences"));
}

}  // namespace
}  // namespace regard
