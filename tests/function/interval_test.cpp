// Intervals of a function's steps hold every result of their operation.
#include "kernels/function/interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "function/tree.h"

namespace regard::function {
namespace {

class RandomIntervals {
 public:
  /// Of conditions, or of int32: around 0, around the extremes, or anywhere; of one number, some, or many.
  Interval next(Type type) {
    if (type == Type::boolean) return pick(3) == 0 ? Interval{0, 1} : single(pick(2));
    static constexpr i64 centers[] = {0, 0, 64, lowest, highest};
    const i64 center = pick(2) == 0 ? centers[pick(5)] : number({lowest, highest});
    const i64 reach = std::array<i64, 4>{0, 3, 100, 1ll << 32}[static_cast<std::size_t>(pick(4))];
    const i64 low = std::max<i64>(center - number({0, reach}), lowest),
              high = std::min<i64>(center + number({0, reach}), highest);
    return {std::min<i64>(low, highest), std::max<i64>(high, lowest)};
  }
  /// A number of it, often its first or last one.
  i64 number(Interval x) {
    const int place = pick(4);
    if (place < 2) return place == 0 ? x.low : x.high;
    return std::uniform_int_distribution<i64>(x.low, x.high)(random_);
  }

 private:
  static Interval single(i64 x) { return {x, x}; }
  int pick(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }

  std::mt19937_64 random_{7};
};

constexpr Operation operations[] = {
#define REGARD_OPERATION(name, ...) Operation::name,
    REGARD_FUNCTION_OPERATIONS(REGARD_OPERATION)
#undef REGARD_OPERATION
};

/// The result for constants; nothing if the operation does not take their types, or its result is not whole.
std::optional<Node> result_of(Operation operation, std::span<const Type> types,
                              std::span<const i64> numbers) {
  Tree tree;
  std::vector<NodeIndex> operands;
  for (std::size_t i = 0; i < types.size(); ++i)
    operands.push_back(tree.constant(types[i], static_cast<std::uint32_t>(numbers[i])));
  const Result<NodeIndex> made = tree.apply(operation, operands);
  if (!made || tree[*made].kind != Kind::constant || tree[*made].type == Type::real) return {};
  return tree[*made];
}

/// How many results of an operation on operands of these types were compared.
int compare(Operation operation, const std::vector<Type>& types, RandomIntervals& random) {
  int compared = 0;
  for (int i = 0; i < 3000; ++i) {
    std::array<Interval, 3> x{};
    std::array<i64, 3> numbers{};
    for (std::size_t j = 0; j < types.size(); ++j) numbers[j] = random.number(x[j] = random.next(types[j]));
    const std::optional<Node> result = result_of(operation, types, std::span(numbers).first(types.size()));
    if (!result) return compared;
    const Interval all = of_operation(operation, result->type, types[0], x[0], x[types.size() > 1 ? 1 : 0],
                                      x[types.size() > 2 ? 2 : 0]);
    const i64 value = static_cast<std::int32_t>(result->bits);
    EXPECT_TRUE(all.low <= value && value <= all.high)
        << info(operation).text << " of " << numbers[0] << ", " << numbers[1] << ", " << numbers[2] << " is "
        << value << ", not in " << all.low << " to " << all.high;
    ++compared;
  }
  return compared;
}

TEST(Interval, HoldsEveryResult) {
  RandomIntervals random;
  int operations_compared = 0;
  for (const Operation operation : operations) {
    int compared = 0;
    for (const Type type : {Type::boolean, Type::integer}) {
      const auto count = static_cast<std::size_t>(info(operation).operands);
      std::vector<Type> types(count, type);
      if (operation == Operation::where) types[0] = Type::boolean;
      compared += compare(operation, types, random);
    }
    operations_compared += compared > 0 ? 1 : 0;
  }
  EXPECT_GE(operations_compared, 25);
}

TEST(Interval, DecidesWhatItCan) {
  const auto less = [](Interval x, Interval y) {
    return of_operation(Operation::less, Type::boolean, Type::integer, x, y, {});
  };
  EXPECT_TRUE(less({0, 63}, {64, 90}).single());
  EXPECT_TRUE(less({64, 90}, {0, 64}).single());
  EXPECT_FALSE(less({0, 63}, {63, 63}).single());
  const auto modulo = [](Interval x, Interval y) {
    return of_operation(Operation::modulo, Type::integer, Type::integer, x, y, {});
  };
  EXPECT_EQ(modulo({70, 75}, {64, 64}).high, 11);
  EXPECT_EQ(modulo({60, 75}, {64, 64}).high, 63);
}

}  // namespace
}  // namespace regard::function
