// The range of keys of a mask: at every key it says what the mask's own text says.
#include "function/row_range.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "function/evaluate.h"
#include "function/parse.h"
#include "function/print.h"

namespace regard::function {
namespace {

constexpr std::int32_t table[] = {3, -1, INT32_MIN, 0, 7, INT32_MAX, 60, 12, -(1 << 29), 1 << 29, 33};
constexpr float reals[] = {0.5f, -2.0f, std::numeric_limits<float>::quiet_NaN(), 9.0f};

const std::vector<Captured> tensors = *parse_tensors("t:int32[1],x:fp32[1]");

Value element(int tensor, std::span<const std::int32_t> i) {
  const auto at = static_cast<std::size_t>(i[0]);
  return tensor == 0 ? Value{.integer = table[at]} : Value{.real = reals[at]};
}

std::int32_t value_of(const Function& function, const std::vector<Number>& numbers, NodeIndex node,
                      std::span<const std::int32_t> place) {
  Evaluator evaluate(function, numbers, {{{std::size(table)}}, {{std::size(reals)}}}, element);
  return evaluate(node, {}, place).integer;
}

struct Sizes {
  std::int32_t sq, sk;
};

/// Expects that the range has the keys that the mask shows, for all rows and keys of these sizes.
void expect_the_same_keys(const Function& keep, const std::vector<Number>& numbers, const RowRange& range,
                          Sizes sizes) {
  for (std::int32_t q = 0; q < sizes.sq; ++q) {
    std::array<std::int32_t, 11> place = {0,        1,        2,      0, q, 0, q + sizes.sk - sizes.sq,
                                          sizes.sq, sizes.sk, 40 + q, 0};
    const std::int32_t begin = value_of(range.function, numbers, range.begin, place),
                       end = value_of(range.function, numbers, range.end, place);
    for (std::int32_t kv = 0; kv < sizes.sk; ++kv) {
      place[5] = kv;
      ASSERT_EQ(begin <= kv && kv < end, value_of(keep, numbers, keep.root, place) != 0)
          << print(keep) << " at row " << q << " and key " << kv << ": [" << begin << ", " << end << ")";
    }
  }
}

Function numbered(const Function& function, std::vector<Number>& numbers) {
  Result<Numbered> made = function::numbered(std::span(&function, 1));
  if (!made) throw std::runtime_error(made.error().message);
  numbers = made->numbers;
  return made->functions.front();
}

std::string reason(const std::string& text) {
  std::vector<Number> numbers;
  const Function keep = numbered(*parse(Purpose::keep, text, tensors), numbers);
  const Result<RowRange> range = row_range(keep, numbers);
  if (!range) return range.error().message;
  for (const Sizes sizes : {Sizes{5, 9}, Sizes{9, 5}, Sizes{1, 1}, Sizes{4, 0}})
    expect_the_same_keys(keep, numbers, *range, sizes);
  return "";
}

TEST(RowRange, OfMasksThatShowOne) {
  for (const char* text : {"kv<=p",
                           "kv<=p||kv<t[b]",
                           "kv>=t[q]&&kv<t[q+1]",
                           "kv<=p&&p-kv<t[q]",
                           "kv<=p&&kv>p-t[q]",
                           "!(kv>q||q-kv>=t[q])",
                           "q//4==kv//4",
                           "kv>>1<=q>>1",
                           "abs(q-kv)<3",
                           "abs(kv-p)<=t[q]",
                           "kv==t[q]",
                           "kv==q||q<2",
                           "where(q%3==0,kv<=q,kv>q+1)",
                           "kv<5&&h>0",
                           "h>5||kv>=2",
                           "kv>=2&&q<3||kv>=t[q]",
                           "(kv<=q||kv<t[b])&&kv>=t[h]",
                           "kv>=q&&kv<q+3||kv>=q&&kv<t[q]",
                           "kv+3<=q",
                           "-kv<t[q]",
                           "3-kv>t[q]",
                           "max(kv,q)<4",
                           "min(kv,q)>=2",
                           "min(kv-q,q)<2&&kv>q-4",
                           "where(q<2,kv,kv-3)<t[q]",
                           "tq-40>=kv",
                           "true",
                           "false",
                           "q<3",
                           "x[q]<1.0&&kv<=q",
                           "!(x[q]<1.0)||kv<=q",
                           "!(x[q]<1.0||kv>q)",
                           "kv<q+2147483647",
                           "kv<=2147483647",
                           "kv>=-2147483647",
                           "kv<=t[q]",
                           "t[q]<kv",
                           "!(kv<t[q])",
                           "(kv<=q)&(kv>=t[q])",
                           "kv<=q&&~(kv<2)",
                           "abs(kv-q)-2<=9",
                           "kv//7==t[q]",
                           "(kv-q)//3<t[q]",
                           "(kv-q)//3>=t[q]",
                           "kv-2<q"})
    EXPECT_EQ(reason(text), "") << text;
}

TEST(RowRange, SaysWhyThereIsNone) {
  const char *const several = "a row may see several ranges of keys",
                    *const wraps = "a sum of the key and another number may wrap",
                    *const other =
                        "it is not made of comparisons of the key with numbers that do not depend on it";
  const struct {
    const char *text, *why;
  } cases[] = {
      {"kv!=q", several},         {"kv<4||kv>q", several}, {"kv<=q&&(kv<4||q-kv<9)", several},
      {"abs(kv-q)>2", several},   {"kv-t[q]<3", wraps},    {"t[q]+kv<3", wraps},
      {"kv+1000000000<q", wraps}, {"kv-h<3", wraps},       {"kv%4==0", other},
      {"t[kv]==t[q]", other},     {"kv*2<q", other},       {"tk<=q", other},
      {"kv<=q-kv", other},        {"kv//t[q]<3", other},   {"float(kv)<0.5*float(q)", other},
      {"(kv<q)==(q<3)", other},
  };
  for (const auto& [text, why] : cases) EXPECT_EQ(reason(text), why) << text;
}

/// Masks that compare the key, in some form, with any number of the row.
class RandomRange {
 public:
  explicit RandomRange(unsigned seed) : random_(seed) {}

  std::string condition(int depth) {
    if (depth == 0) return pick(5) == 0 ? of_row(1) : comparison();
    const std::string x = condition(depth - 1), y = condition(depth - 1);
    switch (pick(6)) {
      case 0:
        return "!(" + x + ")";
      case 1:
        return "(" + x + ")||(" + y + ")";
      case 2:
        return "where(" + of_row(1) + "," + x + "," + y + ")";
      default:
        return "(" + x + ")&&(" + y + ")";
    }
  }

 private:
  int pick(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  template <std::size_t n>
  std::string of(const std::array<const char*, n>& some) {
    return some[static_cast<std::size_t>(pick(n))];
  }
  std::string sign() { return of(std::array{"<", "<=", ">", ">=", "==", "<", ">="}); }
  std::string comparison() {
    const std::string x = key(pick(3)), y = number(pick(3));
    return pick(2) == 0 ? "(" + x + ")" + sign() + "(" + y + ")" : "(" + y + ")" + sign() + "(" + x + ")";
  }
  std::string of_row(int depth) {
    if (pick(3) == 0) return of(std::array{"x[q]<1.0", "x[q]>=x[0]", "!(x[q]<0.0)"});
    return "(" + number(depth) + ")" + sign() + "(" + number(depth) + ")";
  }
  std::string small() { return of(std::array{"q", "p", "3", "sk", "-2", "min(max(t[q],-9),9)", "1000"}); }
  /// A number that depends on the key.
  std::string key(int depth) {
    if (depth == 0) return "kv";
    const std::string x = key(depth - 1);
    switch (pick(9)) {
      case 0:
        return "(" + x + ")-(" + small() + ")";
      case 1:
        return "(" + small() + ")-(" + x + ")";
      case 2:
        return "-(" + x + ")";
      case 3:
        return "(" + x + ")//" + of(std::array{"1", "2", "3", "64", "100000000"});
      case 4:
        return "(" + x + ")>>" + of(std::array{"0", "1", "5", "28"});
      case 5:
        return "abs(" + x + ")";
      case 6:
        return of(std::array{"min(", "max("}) + x + "," + number(1) + ")";
      case 7:
        return "where(" + of_row(0) + "," + x + "," + key(depth - 1) + ")";
      default:
        return "(" + x + ")+(" + small() + ")";
    }
  }
  /// One that does not, often an extreme one.
  std::string number(int depth) {
    if (depth == 0)
      return of(std::array{"q", "p", "0", "2", "7", "t[q]", "t[p]", "t[q+3]", "2147483647", "536870911",
                           "536870912", "536870913", "-536870912", "(-2147483647-1)"});
    const std::string x = number(depth - 1), y = number(depth - 1);
    return pick(4) == 0 ? "where(" + of_row(0) + "," + x + "," + y + ")"
                        : "(" + x + ")" + of(std::array{"+", "-", "*", "//", "%", "&"}) + "(" + y + ")";
  }

  std::mt19937 random_;
};

TEST(RowRange, OfRandomMasks) {
  constexpr int masks = 2000;
  int ranges = 0, shown = 0;
  for (int seed = 0; seed < masks; ++seed) {
    RandomRange random(static_cast<unsigned>(seed));
    const Result<Function> parsed = parse(Purpose::keep, random.condition(seed % 4), tensors);
    if (!parsed) continue;  // more nodes than there may be
    const Result<Numbered> made = function::numbered(std::span(&*parsed, 1));
    if (!made) continue;  // more numbers
    const Function& keep = made->functions.front();
    const Result<RowRange> range = row_range(keep, made->numbers), of_kernel = row_range_of_any_numbers(keep);
    if (!range) continue;
    ++ranges;
    ASSERT_TRUE(of_kernel) << print(keep);
    Function begin = range->function, begin_of_kernel = of_kernel->function;
    EXPECT_EQ(print(begin), print(begin_of_kernel)) << print(keep);
    begin.root = range->end, begin_of_kernel.root = of_kernel->end;
    EXPECT_EQ(print(begin), print(begin_of_kernel)) << print(keep);
    expect_the_same_keys(keep, made->numbers, *range, seed % 2 == 0 ? Sizes{4, 11} : Sizes{9, 4});
    if (testing::Test::HasFatalFailure()) return;
    std::array<std::int32_t, 11> place = {0, 1, 2, 0, 2, 3, 2 + 7, 4, 11, 42, 3};
    shown += value_of(keep, made->numbers, keep.root, place) != 0;
  }
  EXPECT_GT(ranges, masks / 4);
  EXPECT_GT(shown, ranges / 5);
  EXPECT_LT(shown, ranges * 4 / 5);
}

}  // namespace
}  // namespace regard::function
