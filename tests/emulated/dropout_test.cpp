// The dropout mask of the portable GPU kernel matches its definition, for any seed and offset.
#include "support/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "emulated/device.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

/// The seed and the offset in GPU memory.
class SeedTensor {
 public:
  SeedTensor(std::uint64_t seed, std::uint64_t offset) {
    const std::uint64_t words[] = {seed, offset};
    EXPECT_EQ(regard_memory_allocate("cuda", sizeof words, &memory_), REGARD_OK);
    EXPECT_EQ(regard_memory_copy(memory_, words, sizeof words), REGARD_OK);
  }
  ~SeedTensor() { regard_memory_free(memory_); }
  SeedTensor(const SeedTensor&) = delete;
  SeedTensor& operator=(const SeedTensor&) = delete;

  regard_tensor get() const { return {memory_, REGARD_UINT64, 1, {2}, {1}}; }

 private:
  void* memory_ = nullptr;
};

TEST(Emulated, PortableDropsWhatTheDefinitionSays) {
  const Path path{emulated_target(), "portable_forward"};
  for (const auto& [seed, offset] : {std::pair{11ull, 3ull << 32}, {~0ull, (1ull << 63) + 5}})
    for (const bool in_memory : {false, true}) {
      Case c("fwd fp16 d=64 b=2 hq=4 hk=2 sq=70 sk=130 dropout=0.3 dropout_mask mask=causal");
      const SeedTensor tensor(seed, offset);
      if (in_memory) {
        c.arguments().tensor[REGARD_SEED] = tensor.get();
      } else {
        c.arguments().seed = seed;
        c.arguments().offset = offset;
      }
      ASSERT_EQ(run(c, path), "") << c.description();
      const Problem& p = c.problem();
      std::int64_t at = 0, wrong = 0;
      for (std::uint32_t b = 0; b < p.b; ++b)
        for (std::uint32_t h = 0; h < p.hq; ++h)
          for (std::int64_t i = 0; i < p.sq; ++i)
            for (std::int64_t j = 0; j < p.sk; ++j) {
              const bool kept = dropout_byte({seed, offset, b, h}, i, j) <= std::floor((1 - p.dropout) * 255);
              wrong += c.get(REGARD_DROPOUT_MASK, at++) != (kept ? 1 : 0);
            }
      EXPECT_EQ(wrong, 0) << c.description() << " seed " << seed << " offset " << offset;
    }
}

/// Also in O, and when the rows of the mask are those of all sequences one after the other.
TEST(Emulated, PortableDropsInPackedSequences) {
  Case c(
      "fwd fp16 d=64 b=3 hq=3 hk=1 sq=90 sk=200 tq=110 tk=230 varlen dropout=0.6 dropout_mask mask=causal");
  c.arguments().seed = 11;
  c.arguments().offset = 3ull << 32;
  const auto expected = oracle::run(c.problem(), c.arguments(), {2, 0, 0});
  ASSERT_TRUE(expected) << expected.error().message;
  ASSERT_EQ(run(c, {emulated_target(), "portable_forward"}), "");
  EXPECT_EQ(c.mistakes(*expected), "") << c.description();
}

}  // namespace
}  // namespace regard::test
