#include <gmock/gmock.h>

#include <array>
#include <random>
#include <set>
#include <string>

#include "tensor_set.h"

namespace regard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::set<std::uint64_t> bytes_in(const regard_tensor& tensor) {
  std::set<std::uint64_t> all;
  const auto& n = tensor.shape;
  for (std::int64_t i = 0; i < n[0]; ++i)
    for (std::int64_t j = 0; j < n[1]; ++j)
      for (std::int64_t k = 0; k < n[2]; ++k)
        for (std::size_t byte = 0; byte < bytes_of(tensor.dtype); ++byte)
          all.insert(reinterpret_cast<std::uint64_t>(tensor.data) + byte +
                     bytes_of(tensor.dtype) *
                         static_cast<std::uint64_t>(i * tensor.strides[0] + j * tensor.strides[1] +
                                                    k * tensor.strides[2]));
  return all;
}

TEST(ShareMemory, IsWhatTheBytesOfBothSay) {
  std::mt19937 random(1);
  const auto below = [&random](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  const auto draw = [&] {
    regard_tensor tensor{};
    tensor.data = reinterpret_cast<void*>(0x1000 + 2 * below(60));
    tensor.dtype = below(2) == 0 ? REGARD_FP32 : REGARD_BF16;
    tensor.rank = 3;
    for (int i = 0; i < 3; ++i) tensor.shape[i] = below(4);
    tensor.strides[2] = 1;
    tensor.strides[1] = below(8);
    tensor.strides[0] = below(30);
    return tensor;
  };
  int sharing = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    const regard_tensor a = draw(), b = draw();
    const std::set<std::uint64_t> of_a = bytes_in(a), of_b = bytes_in(b);
    bool expected = false;
    for (const std::uint64_t byte : of_a) expected |= of_b.count(byte) != 0;
    sharing += expected ? 1 : 0;
    ASSERT_EQ(share_memory(a, b), expected) << turn;
    ASSERT_EQ(share_memory(b, a), expected) << turn;
  }
  EXPECT_GT(sharing, 1000);
  EXPECT_LT(sharing, 18000);
}

std::string refusal(TensorSet& tensors) {
  const Status status = check_tensors(tensors.problem, tensors.arguments);
  return status ? "" : status.error().message;
}

TEST(CheckTensors, WhatIsWrittenSharesMemoryWithNothing) {
  TensorSet forward(*parse("fwd fp32 b=2 h=2 s=4 d=8 lse"));
  EXPECT_EQ(refusal(forward), "");
  forward[REGARD_K].data = forward[REGARD_Q].data;  // inputs may overlap
  EXPECT_EQ(refusal(forward), "");
  forward[REGARD_O].data = forward[REGARD_V].data;
  EXPECT_THAT(refusal(forward), AllOf(HasSubstr("'o'"), HasSubstr("'v'"), HasSubstr("shares memory")));

  TensorSet backward(*parse("bwd fp32 b=2 h=2 s=4 d=8"));
  EXPECT_EQ(refusal(backward), "");
  backward[REGARD_GRAD_V].data = backward[REGARD_GRAD_K].data;
  EXPECT_THAT(refusal(backward), AllOf(HasSubstr("'grad_k'"), HasSubstr("'grad_v'")));
}

TEST(CheckTensors, KAndVMayShareAPoolOfPages) {
  const std::string problem = "append fp32 b=2 h=2 sk=8 d=8 snew=1 lengths";
  TensorSet dense(*parse(problem));
  dense[REGARD_V].data = dense[REGARD_K].data;
  EXPECT_THAT(refusal(dense), AllOf(HasSubstr("'k'"), HasSubstr("'v'")));

  TensorSet paged(*parse(problem + " paged=4"));
  const auto move_v = [&paged](std::size_t bytes) {
    paged[REGARD_V].data = static_cast<std::byte*>(paged[REGARD_K].data) + bytes;
  };
  constexpr std::size_t page_bytes = std::size_t{4} * 2 * 8 * 4;
  for (const std::size_t bytes : {std::size_t{0}, page_bytes / 4, page_bytes + 4}) {
    move_v(bytes);
    EXPECT_THAT(refusal(paged), AllOf(HasSubstr("'k'"), HasSubstr("'v'"))) << bytes;
  }
  move_v(page_bytes);
  EXPECT_EQ(refusal(paged), "");
  paged[REGARD_V_NEW].data = paged[REGARD_K].data;
  EXPECT_THAT(refusal(paged), HasSubstr("'v_new'"));
}

TEST(CheckWorkspace, SharesMemoryWithNoTensor) {
  TensorSet tensors(*parse("fwd fp32 b=2 h=2 s=4 d=8 lse"));
  const TensorSpecs specs = tensor_specs(tensors.problem);
  alignas(64) std::array<char, 256> memory;
  const auto refusal_of = [&](void* workspace, std::int64_t bytes) {
    const Status status = check_workspace(specs, tensors.arguments, workspace, bytes);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(refusal_of(memory.data(), memory.size()), "");
  EXPECT_THAT(refusal_of(tensors[REGARD_O].data, 64), AllOf(HasSubstr("workspace"), HasSubstr("'o'")));
  EXPECT_THAT(refusal_of(static_cast<char*>(tensors[REGARD_Q].data) - 63, 64), HasSubstr("'q'"));
  EXPECT_EQ(refusal_of(tensors[REGARD_O].data, 0), "");
  EXPECT_EQ(refusal_of(nullptr, 0), "");
}

TEST(CheckTensors, EmptyTensorsShareNothing) {
  TensorSet tensors(*parse("fwd fp32 b=2 h=2 sq=4 sk=0 d=8 lse"));
  tensors[REGARD_K].data = tensors[REGARD_V].data = static_cast<char*>(tensors[REGARD_O].data) + 16;
  EXPECT_EQ(refusal(tensors), "");
}

}  // namespace
}  // namespace regard
