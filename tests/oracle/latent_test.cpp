// A latent K, which has V in its first columns: the same results as with V as a tensor of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "run_case.h"

namespace regard::test {
namespace {

/// The number of column `column` of a row of K.
double number_of_k(const Case& c, std::int64_t row, std::int64_t column) {
  const Problem& p = c.problem();
  const std::int64_t columns = columns_of_k(p);
  if (column < columns) return c.get(REGARD_K, row * columns + column);
  return c.get(REGARD_K_ROPE, row * (p.d - columns) + column - columns);
}

/// The same problem with V.
Case with_v(const Case& latent) {
  Problem p = latent.problem();
  p.latent = p.k_rope = false;
  Case c(print(p));
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    const bool same = latent.arguments().tensor[role].data && role != REGARD_K && role != REGARD_K_ROPE;
    for (std::int64_t at = 0; same && at < latent.count(role); ++at) c.set(role, at, latent.get(role, at));
  }
  for (std::int64_t row = 0; row < c.count(REGARD_K) / p.d; ++row) {
    for (std::int64_t column = 0; column < p.d; ++column) {
      const double number = number_of_k(latent, row, column);
      c.set(REGARD_K, row * p.d + column, number);
      if (column < p.dv) c.set(REGARD_V, row * p.dv + column, number);
    }
  }
  for (std::int64_t i = 0; p.descale != Descale::none && i < c.count(REGARD_DESCALE_K); ++i)
    c.set(REGARD_DESCALE_V, i, latent.get(REGARD_DESCALE_K, i));
  return c;
}

class Latent : public ::testing::TestWithParam<const char*> {};

TEST_P(Latent, IsKAndVInOne) {
  for (const char* parts : {"", " k_rope"}) {
    const Case latent(std::string(GetParam()) + " latent" + parts);
    const oracle::Outputs found = run(latent), expected = run(with_v(latent));
    for (const regard_role role : {REGARD_O, REGARD_LSE}) {
      const auto &a = found.at(role).value, &b = expected.at(role).value;
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i)  // NaN: not computed
        ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
            << latent.description() << " " << i;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    Oracle, Latent,
    ::testing::Values("fwd fp32 b=2 hq=4 hk=1 sq=3 sk=9 d=12 dv=7 lse mask=causal",
                      "fwd bf16 b=5 hq=4 hk=1 sq=3 sk=41 d=12 dv=8 lse lengths paged=7 left_padding",
                      "fwd bf16 kv=int8 descale=page b=3 hq=4 hk=2 sq=2 sk=41 d=12 dv=8 lse lengths paged=16",
                      "fwd bf16 kv=fp8 descale=tensor b=3 hq=4 hk=1 sq=2 sk=41 d=12 dv=8 lse lengths cache=4",
                      "fwd fp16 b=4 hq=4 hk=1 sq=9 sk=41 d=12 dv=8 lse varlen tq=20 paged=5 table=sglang"));

/// The columns of V times their factors, the others as they are.
TEST(LatentFactors, AreThoseOfColumns) {
  const Case latent(
      "fwd fp32 kv=fp8 descale=columns b=3 hq=4 hk=2 sq=2 sk=41 d=260 dv=256 lse lengths paged=7 "
      "mask=causal latent k_rope");
  Problem p = latent.problem();
  p.kv = DType::fp32, p.descale = Descale::none;
  Case scaled(print(p));
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    const bool given = scaled.arguments().tensor[role].data && latent.arguments().tensor[role].data;
    for (std::int64_t at = 0; given && at < scaled.count(role); ++at) {
      const double factor = role == REGARD_K ? latent.get(REGARD_DESCALE_K, at / factor_columns) : 1;
      scaled.set(role, at, latent.get(role, at) * factor);
    }
  }
  const oracle::Outputs found = run(latent), expected = run(scaled);
  for (const regard_role role : {REGARD_O, REGARD_LSE}) {
    const auto &a = found.at(role).value, &b = expected.at(role).value;
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)  // a product is rounded to fp32
      ASSERT_TRUE(std::fabs(a[i] - b[i]) < 1e-5 || a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
          << i;
  }
}

/// Each 128 columns have the factor of their largest number, and the rotated ones none.
TEST(LatentFactors, OfNewTokens) {
  Case c(
      "append bf16 kv=fp8 descale=columns b=1 hk=1 sk=9 d=264 dv=256 latent k_rope snew=1 cache=1 rope=half "
      "rotary=4");
  for (std::int64_t column = 128; column < 256; ++column) c.set(REGARD_K_NEW, column, 0);
  const oracle::Outputs found = run(c);
  double largest = 0;
  for (std::int64_t column = 0; column < 128; ++column)
    largest = std::max(largest, std::fabs(c.get(REGARD_K_NEW, column)));
  const oracle::Output& factors = found.at(REGARD_DESCALE_K);
  ASSERT_EQ(factors.value.size(), 2u);
  EXPECT_DOUBLE_EQ(factors.value[0], largest / 448);
  EXPECT_EQ(factors.value[1], 1);  // of zeros
  EXPECT_EQ((*factors.written)[1], 2 * 8 + 1);
  for (std::size_t column = 0; column < 128; ++column)
    EXPECT_NEAR(found.at(REGARD_K).value[column],
                c.get(REGARD_K_NEW, static_cast<std::int64_t>(column)) * 448 / largest, 1e-3);
  const std::vector<double>& rest = found.at(REGARD_K_ROPE).value;
  ASSERT_EQ(rest.size(), 8u);
  EXPECT_EQ(rest[7], c.get(REGARD_K_NEW, 263));
}

/// What a call writes: the new row as it is, with its last columns rotated.
TEST(LatentTokens, OnlyTheLastColumnsAreRotated) {
  for (const char* parts : {"", " k_rope"}) {
    for (const char* pass : {"append", "fwd"}) {
      const Case c(std::string(pass) +
                   " fp32 b=1 hq=1 hk=1 sq=1 sk=9 d=9 dv=5 latent snew=1 cache=1 "
                   "rope=interleaved rotary=2" +
                   parts);
      const oracle::Outputs found = run(c);
      const Problem& p = c.problem();
      const bool two = p.k_rope;
      std::vector<double> row = found.at(REGARD_K).value;
      if (two)
        row.insert(row.end(), found.at(REGARD_K_ROPE).value.begin(), found.at(REGARD_K_ROPE).value.end());
      ASSERT_EQ(row.size(), 9u);
      const double cos = c.get(REGARD_ROPE_COS, 8), sin = c.get(REGARD_ROPE_SIN, 8);
      const auto token = [&](std::int64_t column) { return c.get(REGARD_K_NEW, column); };
      for (const std::int64_t column : {0, 1, 4, 7, 8})
        EXPECT_EQ(row[static_cast<std::size_t>(column)], token(column)) << c.description() << column;
      EXPECT_NEAR(row[5], token(5) * cos - token(6) * sin, 1e-12);
      EXPECT_NEAR(row[6], token(5) * sin + token(6) * cos, 1e-12);
      EXPECT_FALSE(found.contains(REGARD_V));
    }
  }
}

}  // namespace
}  // namespace regard::test
