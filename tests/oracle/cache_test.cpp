// Keys in a cache: the same results as those of each sequence with the keys gathered by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "run_case.h"

namespace regard::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The keys of a sequence.
struct Span {
  std::int64_t begin, end;
};

Span keys_of(const Case& c, std::int64_t b) {
  const Problem& p = c.problem();
  const auto has = [&](regard_role role) { return c.arguments().tensor[role].data != nullptr; };
  const auto integer = [&](regard_role role, std::int64_t i) { return std::llround(c.get(role, i)); };
  Span keys{0, p.sk};
  if (p.table == PageTable::sglang) {
    const std::int64_t pages = integer(REGARD_PAGE_OFFSETS, b + 1) - integer(REGARD_PAGE_OFFSETS, b);
    keys.end = pages == 0 ? 0 : (pages - 1) * p.paged + integer(REGARD_LAST_PAGE_LENGTHS, b);
  } else if (has(REGARD_LENGTHS_K)) {
    keys.end = std::max<std::int64_t>(integer(REGARD_LENGTHS_K, b), 0);
  }
  if (has(REGARD_LEFT_PADDING)) keys.begin = integer(REGARD_LEFT_PADDING, b);
  return keys;
}

/// The first index of K and V for a row of a sequence, and the row there.
std::pair<std::int64_t, std::int64_t> place_of(const Case& c, std::int64_t b, std::int64_t row) {
  const Problem& p = c.problem();
  const auto integer = [&](regard_role role, std::int64_t i) { return std::llround(c.get(role, i)); };
  if (p.paged == 0) {
    const bool picked = c.arguments().tensor[REGARD_CACHE_INDEX].data != nullptr;
    return {picked ? integer(REGARD_CACHE_INDEX, b) : b, row};
  }
  const std::int64_t block = row / p.paged, blocks = (p.sk + p.paged - 1) / p.paged;
  const std::int64_t page = p.table == PageTable::sglang
                                ? integer(REGARD_PAGE_LIST, integer(REGARD_PAGE_OFFSETS, b) + block)
                                : integer(REGARD_PAGE_TABLE, b * blocks + block);
  return {page, row % p.paged};
}

/// An element's flat index in the logical shape of K or V.
std::int64_t flat_of(const Problem& p, regard_role role, std::int64_t batch, std::int64_t row,
                     std::int64_t head, std::int64_t column) {
  const std::int64_t rows = p.paged > 0 ? p.paged : p.sk, columns = role == REGARD_K ? p.d : p.dv;
  if (p.kv_layout == KvLayout::linear) return ((batch * rows + row) * p.hk + head) * columns + column;
  const std::int64_t x = 16 / static_cast<std::int64_t>(bytes_of(p.kv));
  const std::int64_t start = (batch * p.hk + head) * rows * columns;
  if (role == REGARD_K) return start + (column / x * rows + row) * x + column % x;
  return start + (row / x * columns + column) * x + row % x;
}

double factor_of(const Case& c, regard_role role, std::int64_t b, std::int64_t batch, std::int64_t row,
                 std::int64_t head) {
  const Problem& p = c.problem();
  switch (p.descale) {
    case Descale::none:
      return 1;
    case Descale::tensor:
      return c.get(role, 0);
    case Descale::head:
      return c.get(role, (c.arguments().tensor[role].shape[0] == 1 ? 0 : b) * p.hk + head);
    case Descale::token:
      return c.get(role, (batch * (p.paged > 0 ? p.paged : p.sk) + row) * p.hk + head);
    case Descale::page:
      return c.get(role, batch * p.hk + head);
    case Descale::columns:  // latent_test.cpp
      break;
  }
  return 1;
}

void expect_as_gathered(const std::string& text, const CaseOptions& options = {}) {
  Case c(text, options);
  const Problem& p = c.problem();
  const oracle::Outputs cached = run(c);
  for (std::int64_t b = 0; b < p.b; ++b) {
    const Span keys = keys_of(c, b);
    std::int64_t first = b * p.sq, sq = p.sq;
    if (p.varlen) {
      first = std::llround(c.get(REGARD_OFFSETS_Q, b));
      sq = std::llround(c.get(REGARD_OFFSETS_Q, b + 1)) - first;
    }
    if (c.arguments().tensor[REGARD_LENGTHS_Q].data) sq = std::llround(c.get(REGARD_LENGTHS_Q, b));
    if (sq == 0) continue;  // its pages need not exist
    Problem alone = p;
    alone.b = 1;
    alone.sq = sq;
    alone.sk = keys.end - keys.begin;
    alone.dtype = alone.kv = alone.out = alone.bias_type = alone.rope_type = DType::fp32;
    alone.tq = alone.tk = alone.paged = alone.pages = alone.cache = 0;
    alone.varlen = alone.lengths = alone.left_padding = false;
    alone.table = PageTable::vllm;
    alone.kv_layout = KvLayout::linear;
    alone.descale = Descale::none;
    alone.scale = scale_of(p);
    Case dense(print(alone));
    for (std::int64_t i = 0; i < sq * p.hq * p.d; ++i)
      dense.set(REGARD_Q, i, c.get(REGARD_Q, first * p.hq * p.d + i));
    for (const regard_role role : {REGARD_K, REGARD_V}) {
      const std::int64_t columns = role == REGARD_K ? p.d : p.dv;
      for (std::int64_t j = 0; j < alone.sk; ++j) {
        const bool read = alone.window_left < 0 || j < alone.sink_tokens ||
                          j >= (alone.mask == Mask::window ? alone.sk - sq : 0) - alone.window_left;
        if (!read) continue;  // its page need not exist
        const auto [batch, row] = place_of(c, b, keys.begin + j);
        for (std::int64_t head = 0; head < p.hk; ++head) {
          const double factor =
              factor_of(c, role == REGARD_K ? REGARD_DESCALE_K : REGARD_DESCALE_V, b, batch, row, head);
          for (std::int64_t column = 0; column < columns; ++column)
            dense.set(role, (j * p.hk + head) * columns + column,
                      factor * c.get(role, flat_of(p, role, batch, row, head, column)));
        }
      }
    }
    if (has_alibi(p.bias))
      for (std::int64_t head = 0; head < p.hq; ++head)
        dense.set(REGARD_ALIBI, head, c.get(REGARD_ALIBI, head));
    const oracle::Outputs gathered = run(dense);
    const auto expect_equal = [&](double actual, double expected) {
      if (std::isinf(expected))
        EXPECT_EQ(actual, expected) << c.description() << " sequence " << b;
      else
        EXPECT_NEAR(actual, expected, 2e-5 * (1 + std::fabs(expected)))
            << c.description() << " sequence " << b;
    };
    for (std::int64_t i = 0; i < sq * p.hq * p.dv; ++i)
      expect_equal(cached.at(REGARD_O).value[static_cast<std::size_t>(first * p.hq * p.dv + i)],
                   gathered.at(REGARD_O).value[static_cast<std::size_t>(i)]);
    for (std::int64_t head = 0; head < p.hq; ++head) {
      for (std::int64_t i = 0; i < sq; ++i) {
        const std::int64_t at = p.varlen ? head * p.tq + first + i : (b * p.hq + head) * p.sq + i;
        expect_equal(cached.at(REGARD_LSE).value[static_cast<std::size_t>(at)],
                     gathered.at(REGARD_LSE).value[static_cast<std::size_t>(head * sq + i)]);
      }
    }
  }
}

const std::string sizes = " b=5 hq=4 hk=2 sk=41 d=16 lse ";

TEST(Cache, PagesOfEverySize) {
  for (const char* page : {"1", "2", "3", "7", "8", "16", "48", "64"}) {
    expect_as_gathered("fwd fp32 sq=3 lengths mask=causal paged=" + std::string(page) + sizes);
    expect_as_gathered("fwd bf16 sq=3 table=sglang mask=causal paged=" + std::string(page) + sizes);
  }
}

TEST(Cache, Layouts) {
  CaseOptions gaps, beside;
  gaps.padded_rows = true;
  beside.side_by_side = true;
  for (const std::string layout : {"layout=bshd ", "layout=bhsd ", "layout=sbhd "}) {
    expect_as_gathered("fwd fp16 sq=2 lengths paged=7 " + layout + sizes, gaps);
    expect_as_gathered("fwd fp16 sq=2 lengths paged=7 dv=8 " + layout + sizes, beside);
    expect_as_gathered("fwd fp16 sq=2 lengths cache=7 " + layout + sizes, gaps);
  }
  expect_as_gathered("fwd fp16 sq=2 lengths paged=16 kv_layout=vectorized dv=24" + sizes, gaps);
  expect_as_gathered("fwd fp32 sq=2 lengths paged=12 kv_layout=vectorized dv=8 pages=40" + sizes);
}

TEST(Cache, DenseSequencesThatAreChosenOrNot) {
  CaseOptions not_chosen;
  not_chosen.no_cache_index = true;
  for (const std::string words : {"", "lengths ", "left_padding ", "lengths left_padding mask=causal "}) {
    expect_as_gathered("fwd fp32 sq=2 cache=8 " + words + sizes);
    expect_as_gathered("fwd fp32 sq=2 cache=3 " + words + sizes);  // some are read twice
    expect_as_gathered("fwd fp32 sq=2 cache=6 " + words + sizes, not_chosen);
  }
  expect_as_gathered("fwd fp32 sq=2 left_padding lengths" + sizes);
}

TEST(Cache, LeftPaddingInPages) {
  expect_as_gathered("fwd fp32 sq=2 paged=4 lengths left_padding mask=causal" + sizes);
  expect_as_gathered("fwd fp32 sq=2 paged=4 table=sglang left_padding bias=alibi" + sizes);
}

TEST(Cache, WhatIsLeftOfAllWindowsIsNotRead) {
  for (const std::string window :
       {"mask=window:3,0 ", "mask=window:3,0,sink=5 ", "mask=window:3,4,top_left "}) {
    expect_as_gathered("fwd fp32 sq=2 paged=4 lengths " + window + sizes);
    expect_as_gathered("fwd fp32 sq=2 paged=1 table=sglang left_padding " + window + sizes);
    expect_as_gathered("fwd fp32 sq=2 cache=5 lengths " + window + sizes);
  }
}

TEST(Cache, PackedQueries) {
  expect_as_gathered("fwd fp32 varlen sq=9 tq=17 paged=4 lengths mask=causal" + sizes);
  expect_as_gathered("fwd fp32 varlen sq=9 tq=17 paged=4 table=sglang mask=window:6,0" + sizes);
  expect_as_gathered("fwd bf16 varlen sq=9 tq=17 cache=9 lengths left_padding mask=causal" + sizes);
}

TEST(Cache, TypesAndFactors) {
  CaseOptions shared;
  shared.broadcast = true;
  for (const std::string kv : {"kv=fp8 ", "kv=fp8_e5m2 ", "kv=int8 ", "kv=fp8_fnuz "}) {
    for (const std::string factors : {"descale=tensor ", "descale=head ", "descale=token ", "descale=page "})
      expect_as_gathered("fwd bf16 sq=2 lengths paged=5 " + kv + factors + sizes);
    for (const std::string factors : {"descale=head ", "descale=token "})
      expect_as_gathered("fwd fp16 sq=2 lengths cache=6 " + kv + factors + sizes, shared);
  }
  expect_as_gathered("fwd fp32 sq=2 kv=int8 descale=head" + sizes);
  expect_as_gathered("fwd bf16 sq=2 kv=fp8 paged=5" + sizes);
  expect_as_gathered("fwd bf16 sq=2 kv=int8 lengths paged=16 kv_layout=vectorized descale=token" + sizes);
}

TEST(Cache, ANegativeLengthIsThatOfNoKeys) {
  Case c("fwd fp32 b=1 h=1 sq=2 sk=8 d=4 paged=4 lengths lse");
  c.set(REGARD_LENGTHS_K, 0, -1);
  c.set(REGARD_PAGE_TABLE, 0, -1);
  const oracle::Outputs outputs = run(c);
  EXPECT_EQ(outputs.at(REGARD_O).value, std::vector<double>(8, 0.0));
  EXPECT_EQ(outputs.at(REGARD_LSE).value, std::vector<double>(2, -infinity));
}

TEST(Cache, ALengthBeyondTheBoundIsTheBound) {
  Case c("fwd fp32 b=1 h=1 sq=2 sk=8 d=4 paged=4 lengths lse");
  const auto bound = run(c).at(REGARD_O).value;
  c.set(REGARD_LENGTHS_K, 0, 1000);
  EXPECT_EQ(run(c).at(REGARD_O).value, bound);
}

}  // namespace
}  // namespace regard::test
