#include <gmock/gmock.h>

#include "tensor_set.h"

namespace regard {
namespace {

using ::testing::HasSubstr;
using Integers = std::vector<std::int32_t>;

constexpr char varlen[] = "fwd bf16 b=3 h=2 sq=8 sk=8 d=16 varlen tq=20 tk=20";
constexpr char varlen_lengths[] = "fwd bf16 b=3 h=2 sq=8 sk=8 d=16 varlen tq=20 tk=20 lengths";
constexpr char dense_lengths[] = "fwd bf16 b=3 h=2 sq=8 sk=9 d=16 lengths";

struct Case {
  const char* problem;
  Integers offsets_q, lengths_q, lengths_k;
  const char* message;  ///< empty: accepted
};

class HostValues : public ::testing::TestWithParam<Case> {};

TEST_P(HostValues, AreChecked) {
  const Case& c = GetParam();
  TensorSet tensors(*parse(c.problem));
  if (tensors.problem.varlen) {
    tensors.write(REGARD_OFFSETS_Q, c.offsets_q);
    tensors.write(REGARD_OFFSETS_K, {0, 0, 8, 16});
  }
  if (tensors.problem.lengths) {
    tensors.write(REGARD_LENGTHS_Q, c.lengths_q);
    tensors.write(REGARD_LENGTHS_K, c.lengths_k);
    if (c.lengths_q.empty()) tensors[REGARD_LENGTHS_Q].data = nullptr;
  }
  ASSERT_TRUE(check_tensors(tensors.problem, tensors.arguments));
  const Status status = check_host_values(tensors.problem, tensors.arguments);
  if (*c.message == '\0') {
    EXPECT_TRUE(status) << status.error().message;
  } else {
    ASSERT_FALSE(status) << c.message;
    EXPECT_THAT(status.error().message, HasSubstr(c.message));
  }
}

const Case cases[] = {
    {varlen, {0, 4, 4, 12}, {}, {}, ""},
    {varlen, {0, 0, 0, 0}, {}, {}, ""},
    {varlen, {0, 8, 16, 20}, {}, {}, ""},
    {varlen, {1, 4, 4, 12}, {}, {}, "offsets_q[0] is 1; offsets start at 0"},
    {varlen, {0, 4, 3, 12}, {}, {}, "offsets_q[2] is 3, below the 4 before it"},
    {varlen, {0, 8, 16, 21}, {}, {}, "offsets_q[3] is 21, past the 20 tokens of the tensor"},
    {varlen, {0, 9, 9, 9}, {}, {}, "sequence 0 has 9 rows, more than sq=8"},
    {varlen_lengths, {0, 4, 4, 12}, {4, 0, 7}, {0, 8, 3}, ""},
    {varlen_lengths, {0, 9, 9, 9}, {8, 0, 0}, {0, 8, 3}, ""},
    {varlen_lengths,
     {0, 4, 4, 12},
     {5, 0, 7},
     {0, 8, 3},
     "lengths_q[0] is 5; a logical length is between 0 and the physical 4"},
    {varlen_lengths, {0, 4, 4, 12}, {4, 0, -1}, {0, 8, 3}, "lengths_q[2] is -1"},
    {varlen_lengths, {0, 4, 4, 12}, {}, {0, 8, 9}, "lengths_k[2] is 9"},
    {dense_lengths, {}, {8, 0, 3}, {9, 0, 3}, ""},
    {dense_lengths, {}, {}, {9, 0, 3}, ""},
    {dense_lengths,
     {},
     {8, 9, 3},
     {9, 0, 3},
     "lengths_q[1] is 9; a logical length is between 0 and the physical 8"},
    {dense_lengths, {}, {8, 8, 3}, {9, 0, 10}, "lengths_k[2] is 10"},
};
INSTANTIATE_TEST_SUITE_P(Values, HostValues, ::testing::ValuesIn(cases));

}  // namespace
}  // namespace regard
