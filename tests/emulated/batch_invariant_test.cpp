// With batch_invariant a row has the same bits wherever it and its keys lie: alone or in a batch, decoded or
// in a chunk, dense, packed or in pages, under any bound of the lengths.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "emulated/device.h"
#include "kernels/support.h"
#include "support/part.h"

namespace regard::test {
namespace {

/// A call in which one sequence ends with a query row that sees `keys` keys.
struct Call {
  std::string words;
  std::int64_t batch = 0;      ///< of the sequence
  std::int64_t row = 0;        ///< of the query
  std::int64_t rows = 1;       ///< of the sequence
  std::int64_t first_row = 0;  ///< packed: its rows before those of the sequence
};

/// Differs from element to element.
double number(std::int64_t role, std::int64_t head, std::int64_t row, std::int64_t column) {
  return 2 * std::sin(
                 static_cast<double>(1 + 7919 * role + 131 * head + 37 * row + row * row % 89 + 11 * column));
}

/// O and LSE of the row, of all heads.
std::vector<double> results(const Call& call, const std::string& words, std::int64_t keys, const Path& path) {
  Case c(words + " " + call.words);
  const Problem& p = c.problem();
  const auto set_if_given = [&](regard_role role, std::int64_t i, std::int64_t value) {
    if (c.arguments().tensor[role].data) c.set(role, i, static_cast<double>(value));
  };
  const std::int64_t length = keys + call.rows - 1 - call.row;  // the rows after it see more
  for (std::int64_t b = 0; b < p.b; ++b) {
    set_if_given(REGARD_LENGTHS_K, b, b == call.batch ? length : b == 0 ? p.sk : 20);
    set_if_given(REGARD_LENGTHS_Q, b, b == call.batch ? call.rows : 1);
    set_if_given(REGARD_OFFSETS_Q, b + 1, b < call.batch ? call.first_row : call.first_row + call.rows);
  }
  for (std::int64_t head = 0; head < p.hq && p.bias == Bias::alibi; ++head)
    c.set(REGARD_ALIBI, head, 0.3 / static_cast<double>(1 + head));
  const std::int64_t blocks = p.paged == 0 ? 0 : (p.sk + p.paged - 1) / p.paged;
  for (std::int64_t i = 0; i < p.b * blocks; ++i)
    c.set(REGARD_PAGE_TABLE, i, static_cast<double>((i + 1) % (p.b * blocks)));
  const auto stored = [&](std::int64_t key) {
    if (p.paged == 0) return call.batch * p.sk + key;
    const std::int64_t page = (call.batch * blocks + key / p.paged + 1) % (p.b * blocks);
    return page * p.paged + key % p.paged;
  };
  for (const regard_role role : {REGARD_K, REGARD_V}) {
    const std::int64_t columns = role == REGARD_K ? p.d : p.dv;
    for (std::int64_t key = 0; key < length; ++key) {
      const std::int64_t first = stored(key) * p.hk * columns;
      for (std::int64_t i = 0; i < p.hk * columns; ++i)
        c.set(role, first + i, number(role, i / columns, key, i % columns));
    }
  }
  const std::int64_t row = call.row + (p.varlen ? call.first_row : call.batch * p.sq);
  for (std::int64_t i = 0; i < p.hq * p.d; ++i)
    c.set(REGARD_Q, row * p.hq * p.d + i, number(REGARD_Q, i / p.d, 0, i % p.d));
  EXPECT_EQ(run(c, path), "") << c.description();
  std::vector<double> found;
  for (std::int64_t i = 0; i < p.hq * p.dv; ++i) found.push_back(c.get(REGARD_O, row * p.hq * p.dv + i));
  for (std::int64_t head = 0; head < p.hq; ++head) {
    const std::int64_t lse = p.varlen ? head * p.tq + row : (call.batch * p.hq + head) * p.sq + call.row;
    found.push_back(c.get(REGARD_LSE, lse));
  }
  return found;
}

void expect_same(const std::string& words, std::int64_t keys, const std::string& family,
                 const std::vector<Call>& calls) {
  if (!takes_next_problem()) return;
  const Path path{emulated_target(), family};
  const std::string all = "fwd lse batch_invariant " + words;
  const std::vector<double> alone = results({fmt::format("b=1 sq=1 sk={}", keys)}, all, keys, path);
  for (const double x : alone) ASSERT_TRUE(std::isfinite(x)) << words;
  for (const Call& call : calls)
    EXPECT_TRUE(results(call, all, keys, path) == alone) << words << " " << call.words << " " << family;
}

/// The first kernel has no mask, as a decoded row sees all keys; large scores move row_max.
TEST(EmulatedBatchInvariant, OfThePortableKernel) {
  expect_same("fp16 hq=2 hk=1 d=64 mask=causal", 4300, "portable_forward",
              {{"b=2 sq=1 sk=8200 lengths", 1}, {"b=1 sq=90 sk=4310 lengths paged=7", 0, 85, 90}});
  expect_same("fp16 hq=4 hk=2 d=40 mask=window:70,0,sink=3 sink softcap=20 scale=1", 300, "portable_forward",
              {{"b=3 sq=1 sk=4200 lengths", 1},
               {"b=2 sq=150 tq=151 sk=450 varlen lengths paged=16", 1, 133, 150, 1}});
}

/// The first rows of the blocks in chunks see less of the tile before the row's last one.
TEST(EmulatedBatchInvariant, OfHoppersKernel) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  expect_same("bf16 hq=4 hk=2 d=64 mask=causal", 4300, "sm90_forward",
              {{"b=2 sq=1 sk=8300 lengths paged=16", 1},
               {"b=2 sq=1 sk=4800 lengths paged=7", 1},
               {"b=1 sq=215 sk=4304", 0, 210, 215}});
  expect_same("fp16 hq=4 hk=2 d=128 mask=causal softcap=20 scale=1", 300, "sm90_forward",
              {{"b=2 sq=1 sk=400 lengths paged=3", 1}, {"b=1 sq=200 sk=321 paged=48 lengths", 0, 178, 200}});
  expect_same("bf16 hq=4 hk=2 d=128 mask=causal bias=alibi", 300, "sm90_forward",
              {{"b=2 sq=1 sk=400 lengths paged=3", 1}, {"b=1 sq=200 sk=321 lengths", 0, 178, 200}});
  expect_same("fp16 hq=4 hk=2 d=128 mask=causal sink", 300, "sm90_forward",
              {{"b=2 sq=190 tq=191 sk=450 varlen lengths paged=16", 1, 180, 190, 1}});
  expect_same("bf16 hq=8 hk=1 d=256 mask=window:190,0,sink=3 scale=1", 300, "sm90_forward",
              {{"b=1 sq=200 sk=307", 0, 192, 200}});
  expect_same("fp8 out=bf16 hq=4 hk=2 d=128 mask=causal", 300, "sm90_forward",
              {{"b=3 sq=1 sk=4200 lengths", 1}, {"b=1 sq=200 sk=321", 0, 178, 200}});
}

}  // namespace
}  // namespace regard::test
