// A latent K, which has V in its first columns, in every forward kernel of a CPU. Rows that no call reads are
// NaN (support/case.h): as keys and as values they would spoil both products.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/support.h"

namespace regard::test {
namespace {

[[maybe_unused]] const int strict = setenv("REGARD_STRICT", "1", 1);

/// The best target of this machine, and the one above cpu-generic, with shorter vectors: the others share
/// their code.
std::vector<std::string> some_targets() {
  std::vector<std::string> all = runnable_targets();
  std::erase_if(all, is_gpu);
  if (all.size() > 2) all = {all.front(), all[all.size() - 2]};
  return all;
}

// Lengths are 0, 1, and those around a page, in drawn order (cli/drawn_cache.h).
TEST(Latent, HeadsAndQueries) {
  const std::string target = some_targets().front();
  for (const int heads : {1, 16, 64, 128})
    for (const int queries : {1, 2, 4}) {
      const std::string text = fmt::format(
          "fwd bf16 lse lengths latent b=8 hq={} hk=1 sq={} sk=140 d=576 dv=512 paged=64 mask=causal", heads,
          queries);
      expect_right(text, {target, heads * queries <= 32 ? "decode" : "forward"});
    }
}

TEST(Latent, EveryFeature) {
  const char* const texts[] = {
      "fwd bf16 lse lengths latent b=6 hq=6 hk=1 sk=150 d=40 dv=24 paged=7 left_padding",
      "fwd fp16 lse lengths latent k_rope b=6 hq=5 hk=1 sk=150 d=96 dv=64 paged=1",
      "fwd fp32 lse latent b=3 hq=4 hk=2 sk=150 d=41 dv=23 mask=causal",
      ("fwd bf16 lse latent k_rope b=5 hq=4 hk=1 sk=300 d=576 dv=512 paged=16 table=sglang "
       "mask=window:50,0,sink=2"),
      "fwd bf16 kv=fp8 descale=tensor lse lengths latent k_rope b=4 hq=4 hk=1 sk=150 d=96 dv=64 cache=5",
      "fwd bf16 kv=int8 descale=token lse lengths latent b=4 hq=4 hk=1 sk=150 d=96 dv=64 paged=16",
      "fwd bf16 lse lengths latent k_rope b=2 hq=4 hk=1 sk=900 d=96 dv=64 batch_invariant paged=16",
  };
  const std::string target = some_targets().front();
  for (const char* text : texts) {
    const std::string words = text;
    expect_right(words + " sq=2", {target, "decode"});
    expect_right(words + " sq=40", {target, "forward"});
    expect_right(words + " sq=3", {target, "generic"});
  }
}

// An 8-bit latent row with a factor of each 128 columns, and the others in Q's type beside it.
TEST(Latent, FactorsOfColumns) {
  const std::string target = some_targets().front(),
                    words =
                        "fwd bf16 kv=fp8 descale=columns lse lengths latent k_rope b=6 hk=1 d=576 dv=512 ";
  expect_all_right({words + "hq=1 sq=1 sk=140 paged=64", words + "hq=16 sq=1 sk=140 paged=1 table=sglang",
                    words + "hq=4 sq=4 sk=140 paged=16 mask=causal left_padding"},
                   {target, "decode"});
  expect_right(words + "hq=128 sq=2 sk=140 paged=64 mask=causal", {target, "forward"});
  const char* const smaller[] = {
      "fwd fp16 kv=int8 lengths b=4 hq=5 hk=1 d=140 dv=128 sk=150 paged=7",
      "fwd fp32 kv=fp8_e5m2 b=2 hq=4 hk=2 d=320 dv=256 sk=300 layout=bhsd mask=window:90,0,sink=2",
  };
  for (const char* some : smaller) {
    const std::string text = std::string(some) + " descale=columns latent k_rope lse";
    expect_right(text + " sq=1", {target, "decode"});
    expect_right(text + " sq=40", {target, "forward"}, {.padded_rows = true});
    expect_right(text + " sq=3", {target, "generic"}, {.padded_rows = true});
  }
}

// 16 query rows, which is a tile of a matrix unit.
TEST(Latent, SixteenRows) {
  const char* const texts[] = {
      "b=6 hq=16 hk=1 sq=1 sk=150 d=576 dv=512 paged=16 left_padding",
      "b=6 hq=16 hk=1 sq=1 sk=150 d=96 dv=64 k_rope paged=1",
      "b=6 hq=8 hk=1 sq=2 sk=150 d=96 dv=64 paged=7 mask=causal",
      "b=3 hq=16 hk=1 sq=1 sk=1000 d=576 dv=512 k_rope paged=16 table=sglang mask=window:500,0,sink=2",
      "b=3 hq=32 hk=2 sq=1 sk=150 d=64 dv=32 layout=bhsd cache=4",
  };
  for (const char* text : texts)
    expect_right(std::string("fwd bf16 lse lengths latent ") + text, {some_targets().front(), "decode"});
}

TEST(Latent, PackedQueries) {
  for (const char* parts : {"", " k_rope"}) {
    const std::string text =
        "fwd bf16 lse varlen latent b=6 hq=8 hk=1 d=96 dv=64 sk=300 lengths mask=causal "
        "paged=16 sq=30 tq=70";
    expect_right(text + parts, {some_targets().front(), "forward"});
  }
}

TEST(Latent, NewTokens) {
  const std::string target = some_targets().front();
  const char* const words[] = {"bf16 d=96 dv=64 rope=interleaved rotary=32",
                               "fp32 d=41 dv=23 rope=half rotary=14", "bf16 d=40 dv=24",
                               "bf16 d=96 dv=64 kv=fp8 descale=tensor rope=half rotary=32"};
  for (const char* parts : {"", " k_rope"}) {
    for (const char* some : words)
      for (const char* cache :
           {"paged=16 lengths snew=3", "cache=5 lengths snew=2", "paged=7 table=sglang snew=4"})
        expect_right(fmt::format("append {} b=4 hk=1 latent sk=64 {}{}", some, cache, parts),
                     {target, "append"});
    expect_right(
        fmt::format("append bf16 b=1 hk=1 latent d=96 dv=64 sk=64 paged=16 pages=12 slots=int64 tnew=9{}",
                    parts),
        {target, "append"});
    for (const char* rope : {"rope=half", "rope=interleaved"})
      expect_right(
          fmt::format("fwd bf16 b=4 hq=4 hk=1 latent d=96 dv=64 sk=64 sq=2 lse mask=causal paged=16 lengths "
                      "snew=3 rotary=32 {}{}",
                      rope, parts),
          {target, ""});
  }
}

TEST(Latent, NewTokensWithFactorsOfColumns) {
  const std::string target = some_targets().front(), words = " b=4 hk=1 latent k_rope descale=columns sk=64 ";
  expect_all_right(
      {"append bf16 kv=fp8 d=192 dv=128 rope=interleaved rotary=32 paged=16 lengths snew=3" + words,
       "append fp32 kv=int8 d=576 dv=512 rope=half rotary=64 cache=5 lengths snew=2" + words,
       "append fp16 kv=fp8_e5m2 d=320 dv=256 paged=7 table=sglang snew=4 layout=bhsd" + words,
       "append bf16 kv=fp8 d=576 dv=512 paged=64 pages=12 slots=int64 tnew=9 b=1 hk=1 latent k_rope "
       "descale=columns sk=64"},
      {target, "append"}, {.padded_rows = true});
  expect_right(
      "fwd bf16 kv=fp8 hq=4 d=192 dv=128 sq=2 lse mask=causal paged=16 lengths snew=3 rope=half rotary=32" +
          words,
      {target, ""});
}

// K in two tensors, K in one, and V beside it give the same bits.
TEST(Latent, PlacesDoNotChangeBits) {
  for (const std::string& target : some_targets())
    for (const auto& [sq, family] :
         {std::pair(1, "decode"), std::pair(20, "forward"), std::pair(3, "generic")}) {
      const std::string text =
          fmt::format("fwd bf16 lse lengths b=7 hq=4 hk=1 sk=200 d=96 dv=64 paged=16 sq={}", sq);
      Case one(text + " latent"), two(text + " latent k_rope"), apart(text);
      const auto copy_others = [&](Case& to) {
        for (const regard_role role : {REGARD_Q, REGARD_LENGTHS_Q, REGARD_LENGTHS_K, REGARD_PAGE_TABLE})
          for (std::int64_t i = 0; i < one.count(role); ++i) to.set(role, i, one.get(role, i));
      };
      for (std::int64_t i = 0; i < one.count(REGARD_K); ++i) {
        const std::int64_t row = i / 96, column = i % 96;
        const double number = one.get(REGARD_K, i);
        apart.set(REGARD_K, i, number);
        if (column < 64) apart.set(REGARD_V, row * 64 + column, number);
        if (column < 64)
          two.set(REGARD_K, row * 64 + column, number);
        else
          two.set(REGARD_K_ROPE, row * 32 + column - 64, number);
      }
      ASSERT_EQ(run(one, {target, family}), "");
      for (Case* other : {&two, &apart}) {
        copy_others(*other);
        ASSERT_EQ(run(*other, {target, family}), "") << other->description();
        EXPECT_TRUE(other->bytes(REGARD_O) == one.bytes(REGARD_O))
            << other->description() << " on " << target;
        EXPECT_TRUE(other->bytes(REGARD_LSE) == one.bytes(REGARD_LSE)) << other->description();
      }
    }
}

}  // namespace
}  // namespace regard::test
