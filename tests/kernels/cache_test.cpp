// Keys in a KV cache: pages of every size, dense caches, types and factors of their own, in every forward
// kernel of a CPU. Rows that no call reads are NaN (support/case.h).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <span>

#include "kernels/support.h"
#include "support/part.h"

namespace regard::test {
namespace {

[[maybe_unused]] const int strict = setenv("REGARD_STRICT", "1", 1);

/// The best target of this machine and the most different ones: the others share their code.
std::vector<std::string> some_targets() {
  std::vector<std::string> all = runnable_targets();
  if (all.size() > 3) all = {all.front(), all[all.size() - 2], all.back()};
  std::erase_if(all, is_gpu);
  return all;
}

const std::int64_t page_sizes[] = {1, 2, 3, 7, 8, 16, 48, 64, 128, 480, 1024};
constexpr int head_dims[] = {64, 80, 128, 256}, groups[] = {1, 3, 6, 8, 32};

/// Keys for lengths around a page: the longest sequence has more than two.
std::int64_t keys_of(std::int64_t page) {
  return page < 64 ? 150 : 2 * page + 5;
}

// Each page size with a head dimension, group, mask and table; which ones are drawn. Other targets share the
// code for addresses.
TEST(Cache, EveryPageSize) {
  const char* const variants[] = {"",
                                  "left_padding",
                                  "table=sglang",
                                  "mask=causal",
                                  "mask=window:40,0",
                                  "mask=window:30,2,sink=3 left_padding"};
  std::mt19937 random(1);
  const auto one_of = [&](const auto& list) { return list[random() % std::size(list)]; };
  for (const std::string& target : some_targets())
    for (const std::int64_t page : page_sizes) {
      const bool best = target == runnable_targets().front();
      const int d = best ? one_of(head_dims) : 64, group = best ? one_of(groups) : 3;
      const std::string text = fmt::format("fwd bf16 lse lengths b=8 hq={} hk=1 sk={} d={} paged={} {}",
                                           group, keys_of(page), d, page, one_of(variants));
      expect_right(text + " sq=1", {target, group < 32 ? "decode" : ""});
      expect_right(text + fmt::format(" sq={}", 2 + random() % 70), {target, "forward"});
    }
}

const char* const features[] = {"mask=causal",
                                "mask=window:100,0,sink=5",
                                "mask=window:20,3 left_padding",
                                "ranges",
                                "bits left_padding",
                                "softcap=2 bias=1h mask=causal",
                                "bias=alibi_b left_padding mask=causal",
                                "sink lengths table=sglang",
                                "mask=window:15,4,top_left lengths",
                                "scale=-0.2 lengths"};

TEST(Cache, EveryFeature) {
  const std::string target = runnable_targets().front();
  if (is_gpu(target)) GTEST_SKIP() << "the kernels are those of a CPU";
  for (const char* feature : features) {
    const std::string words = feature;
    for (const char* cache : {"paged=7", "cache=6"}) {
      if (std::string(cache) == "cache=6" && words.find("table") != std::string::npos) continue;
      const std::string text = fmt::format("fwd bf16 lse b=4 hq=4 hk=2 d=64 sk=331 {} {}", cache, words);
      expect_right(text + " sq=2 splits=2", {target, "decode"});
      expect_right(text + " sq=70", {target, "forward"});
      expect_right(text + " sq=5", {target, "generic"});
    }
  }
}

// Decoded rows, rows to verify and chunks of a prompt in one call.
TEST(Cache, PackedQueries) {
  for (const std::string& target : some_targets())
    for (const char* rest : {"", "mask=causal", "mask=window:50,0,sink=2 left_padding"})
      for (const char* cache : {"paged=16", "paged=48 table=sglang", "cache=7"}) {
        const std::string lengths = std::string(cache).find("sglang") == std::string::npos ? "lengths" : "";
        const std::string text =
            fmt::format("fwd bf16 lse varlen b=6 hq=6 hk=2 d=64 sk=300 {} {} {}", cache, lengths, rest);
        expect_right(text + " sq=90 tq=200", {target, "forward"});
        expect_right(text + " sq=2 tq=9", {target, "decode"});
      }
}

TEST(Cache, DenseCaches) {
  CaseOptions in_order, side_by_side;
  in_order.no_cache_index = true;
  side_by_side.side_by_side = true;
  for (const std::string& target : some_targets())
    for (const char* rest : {"", "left_padding", "left_padding lengths mask=causal", "lengths layout=bhsd"}) {
      const std::string text = fmt::format("fwd bf16 lse b=4 hq=4 hk=2 d=64 sk=200 {}", rest);
      for (const auto& [sq, family] : {std::pair(1, "decode"), std::pair(33, "forward")}) {
        const std::string sized = fmt::format("{} sq={}", text, sq);
        expect_right(sized + " cache=5", {target, family});
        expect_right(sized + " cache=4", {target, family}, in_order);
        expect_right(sized, {target, family});
        expect_right(sized + " paged=16", {target, family}, side_by_side);
      }
    }
}

// All factors differ from 1 and from each other.
TEST(Cache, TypesAndFactors) {
  const char* const types[] = {"bf16 kv=int8 descale=token",    "fp16 kv=fp8 descale=head",
                               "fp32 kv=fp8_e5m2 descale=page", "bf16 kv=fp8_fnuz descale=tensor",
                               "bf16 kv=fp8 descale=page",      "bf16 kv=fp8_e5m2 descale=token",
                               "fp16 kv=int8 descale=tensor",   "fp16 kv=fp8_e5m2_fnuz descale=token",
                               "fp32 kv=int8 descale=head",     "fp32 kv=fp8"};
  for (const std::string& target : some_targets())
    for (const char* type : std::span(types).first(target == runnable_targets().front() ? 10 : 4)) {
      const bool pages =
          std::string(type).find("page") != std::string::npos || std::string(type).starts_with("fp16");
      const std::string text = fmt::format("fwd {} lse lengths b=4 hq=4 hk=2 d=64 dv=80 sk=170 {}", type,
                                           pages ? "paged=16" : "cache=5");
      expect_right(text + " sq=1", {target, "decode"});
      expect_right(text + " sq=40", {target, "forward"});
      if (target == runnable_targets().front()) expect_right(text + " sq=3 mask=causal", {target, "generic"});
    }
}

TEST(Cache, FactorsOfEveryKind) {
  const std::string target = runnable_targets().front();
  if (is_gpu(target)) GTEST_SKIP() << "the kernels are those of a CPU";
  for (const char* descale : {"tensor", "head", "token", "page"})
    for (const char* rest : {"", "mask=window:60,0,sink=5 left_padding", "scale=-0.1 sink"}) {
      const std::string text = fmt::format(
          "fwd bf16 kv=int8 descale={} lse lengths b=4 hq=4 hk=2 d=64 sk=170 paged=16 {}", descale, rest);
      expect_right(text + " sq=1 splits=2", {target, "decode"});
      expect_right(text + " sq=40", {target, "forward"});
      expect_right(text + " sq=3", {target, "generic"});
    }
  for (const char* family : {"forward", "generic"})  // packed keys are no cache
    expect_right(
        "fwd bf16 kv=int8 descale=token lse varlen b=3 hq=4 hk=2 d=64 sq=20 sk=90 tq=40 tk=200 mask=causal",
        {target, family});
  expect_right("fwd fp8 descale=head lse lengths b=3 hq=4 hk=2 d=64 sq=5 sk=90 paged=16 out=bf16",
               {target, "generic"});
}

TEST(Cache, VectorizedPages) {
  for (const std::string& target : some_targets())
    for (const char* type : {"bf16", "bf16 kv=int8 descale=token", "fp32"}) {
      if (std::string(type) != "bf16" && target != runnable_targets().front()) continue;
      for (const char* page : {"paged=16 left_padding", "paged=48 table=sglang"}) {
        const std::string text =
            fmt::format("fwd {} kv_layout=vectorized lse b=5 hq=4 hk=2 d=64 dv=80 sk=200 {}", type, page);
        expect_right(text + " sq=1", {target, "decode"});
        expect_right(text + " sq=20 mask=window:30,0", {target, "forward"});
        if (target == runnable_targets().front()) expect_right(text + " sq=3", {target, "generic"});
      }
    }
}

TEST(Cache, AmxTiles) {
  for (const char* rest : {"bf16 paged=16 mask=window:40,0,sink=3", "bf16 paged=512 mask=window:40,0,sink=3",
                           "fp16 cache=4 mask=window:41,0 left_padding", "fp16 paged=3",
                           "bf16 kv=fp8 descale=token paged=64", "fp16 kv=int8 descale=head cache=5"})
    expect_right(fmt::format("fwd lse lengths b=3 hq=4 hk=2 sq=70 sk=600 d=64 {}", rest),
                 {"cpu-amx-emulated", "forward"});
}

/// Copies K and V of sequence 0 of a dense case to where a cache has its keys.
void copy_keys(const Case& from, std::int64_t b, Case& to) {
  const Problem& p = to.problem();
  const std::int64_t padding = p.left_padding ? std::llround(to.get(REGARD_LEFT_PADDING, b)) : 0;
  const std::int64_t end = p.lengths ? std::llround(to.get(REGARD_LENGTHS_K, b)) : p.sk;
  const std::int64_t blocks = (p.sk + p.paged - 1) / p.paged;
  for (const regard_role role : {REGARD_K, REGARD_V}) {
    const std::int64_t n = p.hk * (role == REGARD_K ? p.d : p.dv);
    for (std::int64_t row = padding; row < end; ++row) {
      const std::int64_t page = std::llround(to.get(REGARD_PAGE_TABLE, b * blocks + row / p.paged));
      for (std::int64_t i = 0; i < n; ++i)
        to.set(role, (page * p.paged + row % p.paged) * n + i, from.get(role, (row - padding) * n + i));
    }
  }
}

/// O and LSE of one sequence, [b, ...].
std::vector<std::vector<std::uint8_t>> results_of(const Case& c, std::int64_t b) {
  std::vector<std::vector<std::uint8_t>> results;
  for (const regard_role role : {REGARD_O, REGARD_LSE}) {
    const std::vector<std::uint8_t> all = c.bytes(role);
    const std::size_t each = all.size() / static_cast<std::size_t>(c.problem().b);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(each * static_cast<std::size_t>(b));
    results.emplace_back(first, first + static_cast<std::ptrdiff_t>(each));
  }
  return results;
}

// With batch_invariant a row has the same bits whether its keys are dense or in pages of any size, after left
// padding, under a larger bound, alone or in a batch.
TEST(Cache, PagesDoNotChangeBits) {
  for (const std::string& target : some_targets())
    for (const auto& [sq, family, mask] :
         {std::tuple(1, "decode", ""), std::tuple(2, "decode", "mask=window:300,0,sink=3"),
          std::tuple(70, "forward", "mask=causal"), std::tuple(70, "forward", "mask=window:90,0,sink=3")}) {
      const std::string words = fmt::format("fwd bf16 lse batch_invariant hq=4 hk=2 d=64 sq={} {}", sq, mask);
      const std::int64_t keys = 701;
      Case dense(fmt::format("{} b=1 sk={}", words, keys));
      ASSERT_EQ(run(dense, {target, family}), "");
      for (const std::int64_t page : page_sizes) {
        if (!takes_next_problem()) continue;
        Case paged(fmt::format("{} b=3 lengths left_padding sk=900 paged={}", words, page));
        const std::int64_t blocks = (900 + page - 1) / page, b = 1;
        const std::int64_t padding = page % 3 * 5;
        paged.set(REGARD_LEFT_PADDING, b, static_cast<double>(padding));
        paged.set(REGARD_LENGTHS_K, b, static_cast<double>(keys + padding));
        if (paged.arguments().tensor[REGARD_LENGTHS_Q].data) paged.set(REGARD_LENGTHS_Q, b, sq);
        for (std::int64_t i = 0; i < blocks; ++i)
          paged.set(REGARD_PAGE_TABLE, b * blocks + i, static_cast<double>(b * blocks + (i + 1) % blocks));
        copy_keys(dense, b, paged);
        for (std::int64_t i = 0; i < dense.count(REGARD_Q); ++i)
          paged.set(REGARD_Q, b * dense.count(REGARD_Q) + i, dense.get(REGARD_Q, i));
        ASSERT_EQ(run(paged, {target, family}), "") << paged.description();
        EXPECT_TRUE(results_of(paged, b) == results_of(dense, 0)) << paged.description() << " on " << target;
      }
    }
}

// Page numbers above 65535, and a stride by which their product passes 2^32.
TEST(Cache, DistantPages) {
  for (const std::string& target : some_targets())
    for (const auto& [sq, family] :
         {std::pair(1, "decode"), std::pair(20, "forward"), std::pair(3, "generic")}) {
      Case c(fmt::format("fwd bf16 lse b=1 h=1 d=64 sq={} sk=40 paged=1 pages=70000", sq));
      constexpr std::int64_t apart = 70000;
      for (const regard_role role : {REGARD_K, REGARD_V}) {
        regard_tensor& tensor = c.arguments().tensor[role];
        const std::int64_t bytes = tensor.shape[0] * apart * 2, row = 64;
        void* const memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        for (std::int64_t i = 0; i < c.problem().sk; ++i) {
          const auto page = std::llround(c.get(REGARD_PAGE_TABLE, i));
          std::memcpy(static_cast<std::uint16_t*>(memory) + page * apart,
                      static_cast<std::uint16_t*>(tensor.data) + page * row, row * 2);
        }
        tensor.data = memory;
        tensor.strides[0] = apart;
      }
      EXPECT_GT(c.get(REGARD_PAGE_TABLE, 0) + c.get(REGARD_PAGE_TABLE, 39), 65535);
      const auto expected = oracle::run(c.problem(), c.arguments());
      ASSERT_TRUE(expected) << expected.error().message;
      EXPECT_EQ(run(c, {target, family}), "");
      EXPECT_EQ(c.mistakes(*expected), "") << target << " " << family;
      for (const regard_role role : {REGARD_K, REGARD_V})
        munmap(c.arguments().tensor[role].data,
               static_cast<std::size_t>(c.arguments().tensor[role].shape[0] * apart * 2));
    }
}

}  // namespace
}  // namespace regard::test
