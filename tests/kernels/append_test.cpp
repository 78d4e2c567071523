// New tokens in a KV cache, on CPUs: each row is where it belongs, rotated, in the cache's type; all else of
// the cache is as before, to the byte.
#include <functional>

#include "kernels/support.h"

namespace regard::test {
namespace {

Path cpu() {
  return {runnable_targets().front(), "append", 2, 1};
}

std::vector<std::string> combined(const std::vector<std::string>& heads,
                                  const std::vector<std::string>& tails) {
  std::vector<std::string> texts;
  for (const std::string& head : heads)
    for (const std::string& tail : tails) texts.push_back(head + " " + tail);
  return texts;
}

const std::vector<std::string> caches = {
    "cache=5 lengths snew=3",
    "cache=4 snew=2",
    "cache=5 lengths left_padding snew=3",
    "paged=16 lengths snew=3",
    "paged=1 lengths snew=2 pages=300",
    "paged=7 lengths snew=9 left_padding pages=50",
    "paged=16 table=sglang snew=5",
    "paged=16 kv_layout=vectorized lengths snew=17",
    "paged=16 lengths snew=6 tnew=14",
    "cache=4 lengths snew=6 tnew=14",
    "paged=16 slots=int64 tnew=9 pages=12",
    "cache=4 slots=int32 tnew=9",
};

TEST(Append, PutsTokensWhereTheyBelong) {
  expect_all_right(
      combined({"append bf16 b=4 h=3 sk=64 d=32", "append fp32 b=4 h=2 sk=64 d=48 dv=32"}, caches), cpu());
}

TEST(Append, RotatesKeys) {
  const std::string head = "append b=4 h=2 sk=64 paged=16 lengths snew=3 ";
  expect_all_right(
      combined({head}, {"bf16 d=32 rope=interleaved rotary=32", "bf16 d=40 rope=half rotary=40",
                        "fp16 d=33 rope=half rotary=14 rope_type=fp32", "fp32 d=64 rope=interleaved rotary=2",
                        "bf16 d=64 rope=half rotary=32 rope_rows=300 positions=sequence",
                        "bf16 d=64 rope=interleaved rotary=48 rope_type=fp32 rope_rows=300 positions=token",
                        "bf16 d=64 rope=interleaved rotary=64 kv=fp8 descale=token",
                        "fp32 d=64 rope=half rotary=64 kv=int8 descale=head left_padding"}),
      cpu());
  expect_right(
      "append bf16 b=1 h=2 sk=64 d=32 paged=16 slots=int64 tnew=9 pages=12 rope=half rotary=32 "
      "positions=token",
      cpu());
  expect_right(
      "append bf16 b=3 h=2 sk=64 d=32 paged=16 lengths tnew=9 snew=5 rope=half rotary=32 positions=token",
      cpu());
  expect_right("append bf16 b=3 h=2 sk=64 d=32 paged=16 table=sglang tnew=9 snew=5 rope=half rotary=32",
               cpu());
}

TEST(Append, QuantizesToTheTypeOfTheCache) {
  const std::vector<std::string> types = {"kv=fp8", "kv=fp8_e5m2", "kv=int8", "kv=fp8_fnuz",
                                          "kv=fp8_e5m2_fnuz"};
  const std::vector<std::string> factors = {"descale=tensor", "descale=head", "descale=token",
                                            "descale=page"};
  expect_all_right(
      combined(combined({"append bf16 b=3 h=2 sk=64 d=40 paged=16 lengths snew=3"}, types), factors), cpu());
  expect_all_right(
      combined({"append fp16 b=3 h=2 sk=64 d=64 paged=16 kv_layout=vectorized lengths snew=3 kv=fp8",
                "append fp32 b=3 h=2 sk=64 d=24 cache=4 lengths snew=3 kv=fp8_e5m2"},
               {"", "descale=token", "descale=head"}),
      cpu());
  expect_right("append bf16 b=1 h=2 sk=64 d=40 paged=16 slots=int32 tnew=7 pages=9 kv=int8 descale=page",
               cpu());
}

TEST(Append, TakesAnyStrides) {
  for (const std::string& cache : caches) {
    expect_right("append bf16 b=4 h=2 sk=64 d=32 " + cache, cpu(), {.padded_rows = true});
    if (cache.find("vectorized") == std::string::npos)
      expect_right("append fp16 kv=fp8 descale=token b=4 h=2 sk=64 d=32 " + cache, cpu(),
                   {.side_by_side = true});
  }
  expect_all_right({"append bf16 b=3 h=4 sk=64 d=32 paged=16 lengths snew=3 layout=bhsd",
                    "append bf16 b=3 h=4 sk=64 d=32 cache=3 lengths snew=3 layout=sbhd"},
                   cpu());
}

TEST(Append, StaysInsideTheTensors) {
  for (const Guarded edge : {Guarded::at_start, Guarded::at_end})
    for (const std::string& cache : caches)
      expect_right("append bf16 b=4 h=2 sk=64 d=32 kv=fp8 " + cache, cpu(), {.guarded = edge});
}

/// Sequences without keys, pages and slots that do not exist, and tokens of no sequence; all else is written.
TEST(Append, LeavesOutWhatHasNoPlace) {
  const auto expect_unwritten = [](const std::string& text, const std::function<void(Case&)>& change) {
    Case c(text, {.guarded = Guarded::at_end});
    change(c);
    c.poison_outputs();
    EXPECT_EQ(run(c, cpu()), "") << text;
    const auto expected = oracle::run(c.problem(), c.arguments(), {});
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(c.mistakes(*expected), "") << text;
    EXPECT_FALSE(expected->at(REGARD_K).value.empty()) << text;
  };
  for (const std::string cache : {"paged=16", "cache=3", "paged=16 kv_layout=vectorized"})
    expect_unwritten("append bf16 b=3 h=2 sk=64 d=32 lengths snew=3 " + cache,
                     [](Case& c) { c.set(REGARD_LENGTHS_K, 1, -1); });
  expect_unwritten("append bf16 b=2 h=2 sk=64 d=32 cache=2 slots=int64 tnew=3",
                   [](Case& c) { c.set(REGARD_SLOTS, 1, -7); });
  expect_unwritten("append bf16 b=2 h=2 sk=64 d=32 paged=16 lengths snew=5 tnew=9", [](Case& c) {
    for (int i = 0; i < 2; ++i) c.set(REGARD_OFFSETS_NEW, 1 + i, 3);
  });
}

/// Beyond 2^32 elements.
TEST(Append, WritesFarApart) {
  expect_all_right({"append bf16 b=3 h=2 sk=64 d=32 paged=16 lengths snew=3 rope=half rotary=32",
                    "append bf16 b=1 h=2 sk=64 d=32 cache=3 slots=int64 tnew=5 kv=int8 descale=head"},
                   cpu(), {.far = true});
}

TEST(Append, IsRightOnEveryTarget) {
  for (const std::string& target : runnable_targets()) {
    const Path path{target, "append", 1, 1};
    expect_all_right(
        {"append bf16 b=3 h=2 sk=64 d=40 paged=16 lengths snew=3 rope=half rotary=24 kv=fp8 descale=token",
         "append fp16 b=3 h=2 sk=64 d=40 paged=8 lengths snew=3 kv=int8 descale=head kv_layout=linear"},
        path);
  }
}

/// New tokens are written before they are read, and queries are rotated elsewhere.
TEST(Append, IsTheFirstStageOfForward) {
  const std::string head = "fwd bf16 lse b=4 hq=4 hk=2 sk=64 d=40 ";
  expect_all_right(
      combined({head + "sq=3 mask=causal ", head + "sq=2 "},
               {"cache=5 lengths snew=3", "paged=7 lengths snew=2 rope=half rotary=40",
                "paged=16 table=sglang snew=3 rope=interleaved rotary=16 rope_type=fp32",
                "cache=4 lengths left_padding snew=3 rope=half rotary=32 positions=sequence rope_rows=200",
                "paged=16 lengths snew=3 kv=fp8 descale=token rope=half rotary=40",
                "paged=16 lengths snew=3 kv=int8 descale=head"}),
      {"", "", 2, 2});
  expect_all_right({"fwd bf16 lse b=4 hq=4 hk=2 sq=9 tq=17 varlen sk=64 d=33 paged=8 lengths snew=9 tnew=17 "
                    "mask=window:20,0 rope=half rotary=32",
                    "fwd fp16 lse b=4 hq=4 hk=2 sq=9 tq=17 varlen sk=64 d=33 cache=5 lengths snew=9 tnew=17 "
                    "mask=window:20,0 rope=half rotary=32",
                    "fwd fp32 lse b=1 h=1 sq=1 sk=64 d=64 cache=1 snew=1 rope=interleaved rotary=64"},
                   {"", "", 2, 1});
}

}  // namespace
}  // namespace regard::test
