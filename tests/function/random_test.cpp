// Random functions: the value of a text, worked out while it is written, is that of its tree, of the tree of
// its canonical text, and of the tree whose literals are numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "function/arithmetic.h"
#include "function/canonical.h"
#include "function/evaluate.h"
#include "function/parse.h"
#include "function/print.h"

namespace regard::function {
namespace {

constexpr std::int32_t size = 5;  // of the tensor's dimension
constexpr std::int32_t table[size] = {3, -1, INT32_MIN, 0, 7};
constexpr std::int32_t places[] = {0, 2, 7, 3, 40, 33, 45, 41, 46, 140, 233};  // s b h hk q kv p sq sk tq tk

/// Writes int32 expressions and conditions in all brackets that there may be, with their values.
class Writer {
 public:
  explicit Writer(unsigned seed) : random_(seed) {}

  struct Written {
    std::string text;
    std::int32_t value = 0;
  };

  Written condition(int depth) {
    if (depth == 0) return pick(8) == 0 ? Written{"true", 1} : comparison(0);
    const int choice = pick(4);
    if (choice == 0) return comparison(depth - 1);
    const Written x = condition(depth - 1);
    if (choice == 1) return {"!(" + x.text + ")", x.value == 0};
    const Written y = condition(depth - 1);
    if (choice == 2) return {"(" + x.text + ")&&(" + y.text + ")", x.value != 0 && y.value != 0};
    return {"(" + x.text + ")||(" + y.text + ")", x.value != 0 || y.value != 0};
  }

 private:
  int pick(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }

  Written comparison(int depth) {
    const Written x = number(depth), y = number(depth);
    const auto as = [&](const char* sign, bool value) {
      return Written{"(" + x.text + ")" + sign + "(" + y.text + ")", value};
    };
    switch (pick(6)) {
      case 0:
        return as("<", x.value < y.value);
      case 1:
        return as("<=", x.value <= y.value);
      case 2:
        return as(">", x.value > y.value);
      case 3:
        return as(">=", x.value >= y.value);
      case 4:
        return as("==", x.value == y.value);
      default:
        return as("!=", x.value != y.value);
    }
  }

  Written leaf() {
    static constexpr std::int32_t literals[] = {0, 1, -1, 2, 3, 31, 33, INT32_MAX, INT32_MIN};
    if (pick(2) == 0) {
      const auto i = static_cast<std::size_t>(1 + pick(10));
      return {std::string(variables()[i]), places[i]};
    }
    const std::int32_t value = literals[pick(9)];
    return {fmt::format("{}", value), value};
  }

  Written number(int depth) {
    if (depth == 0) return leaf();
    const Written x = number(depth - 1);
    const auto one = [&](const std::string& before, std::int32_t value) {
      return Written{before + "(" + x.text + ")", value};
    };
    switch (pick(4)) {
      case 0:
        return one_operand(x, one);
      case 1: {
        const std::int32_t index = std::min(std::max(x.value, 0), size - 1);
        return {"t[" + x.text + "]", table[index]};
      }
      case 2: {
        const Written c = condition(depth - 1), y = number(depth - 1);
        return {"where(" + c.text + "," + x.text + "," + y.text + ")", c.value != 0 ? x.value : y.value};
      }
      default:
        return two_operands(x, number(depth - 1));
    }
  }

  template <class One>
  Written one_operand(const Written& x, const One& one) {
    switch (pick(5)) {
      case 0:
        return one("-", negative(x.value));
      case 1:
        return one("~", ~x.value);
      case 2:
        return one("abs", x.value < 0 ? negative(x.value) : x.value);
      case 3:
        return one("sign", (x.value > 0) - (x.value < 0));
      default:
        return one("int", x.value);
    }
  }

  Written two_operands(const Written& x, const Written& y) {
    const auto as = [&](const char* sign, std::int32_t value) {
      return Written{"(" + x.text + ")" + sign + "(" + y.text + ")", value};
    };
    const auto called = [&](const char* name, std::int32_t value) {
      return Written{fmt::format("{}({},{})", name, x.text, y.text), value};
    };
    switch (pick(12)) {
      case 0:
        return as("+", wrapped(bits(x.value) + bits(y.value)));
      case 1:
        return as("-", wrapped(bits(x.value) - bits(y.value)));
      case 2:
        return as("*", wrapped(bits(x.value) * bits(y.value)));
      case 3:
        return as("//", floor_of(x.value, y.value));
      case 4:
        return as("%", y.value == 0
                           ? 0
                           : wrapped(bits(x.value) - bits(floor_of(x.value, y.value)) * bits(y.value)));
      case 5:
        return as("&", x.value & y.value);
      case 6:
        return as("|", x.value | y.value);
      case 7:
        return as("^", x.value ^ y.value);
      case 8:
        return as("<<", wrapped(bits(x.value) << (bits(y.value) % 32)));
      case 9:
        return as(">>", x.value >> (bits(y.value) % 32));
      case 10:
        return called("min", std::min(x.value, y.value));
      default:
        return called("max", std::max(x.value, y.value));
    }
  }

  /// By 64 bits.
  static std::int32_t floor_of(std::int32_t x, std::int32_t y) {
    if (y == 0) return 0;
    const std::int64_t quotient = std::int64_t{x} / y, rest = std::int64_t{x} % y;
    return wrapped(static_cast<std::uint32_t>(quotient - (rest != 0 && (rest < 0) != (y < 0))));
  }

  std::mt19937 random_;
};

std::int32_t value_of(const Function& function, const std::vector<Number>& numbers) {
  Evaluator evaluate(function, numbers, {{{size}}},
                     [](int, std::span<const std::int32_t> i) { return Value{.integer = table[i[0]]}; });
  return evaluate(function.root, {}, places).integer;
}

TEST(FunctionText, OfRandomFunctionsMeansWhatItSays) {
  const std::vector<Captured> tensors = *parse_tensors("t:int32[1]");
  int refused = 0, true_ones = 0;
  constexpr int functions = 3000;
  for (int seed = 0; seed < functions; ++seed) {
    const Writer::Written written = Writer(static_cast<unsigned>(seed)).condition(seed % 5);
    const Result<Function> function = parse(Purpose::keep, written.text, tensors);
    if (!function) {  // more nodes, or more characters, than there may be
      ++refused;
      continue;
    }
    true_ones += written.value;
    ASSERT_EQ(value_of(*function, {}), written.value) << written.text;
    const std::string text = print(*function);
    const Result<Function> again = parse(Purpose::keep, text, tensors);
    ASSERT_TRUE(again) << text << ": " << again.error().message;
    EXPECT_EQ(print(*again), text);
    EXPECT_EQ(value_of(*again, {}), written.value) << text;
    const Result<Canonical> numbered = canonical(*function);
    if (!numbered) continue;  // more numbers than there may be
    EXPECT_EQ(value_of(numbered->function, numbered->numbers), written.value) << print(numbered->function);
  }
  EXPECT_LT(refused, functions / 10);
  EXPECT_GT(true_ones, functions / 4);
  EXPECT_LT(true_ones, functions * 3 / 4);
}

}  // namespace
}  // namespace regard::function
