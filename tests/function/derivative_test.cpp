// Symbolic gradients against differences, and values against fp32.
#include "function/derivative.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "function/evaluate.h"
#include "function/parse.h"
#include "function/print.h"

namespace regard::function {
namespace {

Function function_of(std::string_view text) {
  const Result<Function> parsed = parse(Purpose::score, text, *parse_tensors("t:fp32[2],u:fp32[1]"));
  if (!parsed) throw std::runtime_error(parsed.error().message);
  return *parsed;
}

constexpr std::int32_t heads = 3, rows = 7;

/// The numbers of both tensors; one of them may be changed.
struct Tensors {
  std::vector<double> t = std::vector<double>(heads * rows), u = std::vector<double>(heads);
  double& at(int tensor, std::span<const std::int32_t> i) {
    return tensor == 0 ? t[static_cast<std::size_t>(i[0] * rows + i[1])] : u[static_cast<std::size_t>(i[0])];
  }
};

class Place {
 public:
  Place(const Function& function, Tensors tensors)
      : tensors_(std::move(tensors)),
        evaluate_(function, {}, {{{heads, rows}}, {{heads}}},
                  [this](int tensor, std::span<const std::int32_t> i) {
                    return Value{.real = tensors_.at(tensor, i) + (tensor == changed_ ? change_ : 0)};
                  }) {}

  double value(NodeIndex node, double s, std::int32_t q, std::int32_t kv) {
    // s b h hk q kv p sq sk tq tk
    const std::int32_t variables[] = {0, 0, 1, 1, q, kv, q + 2, 5, 7, q, kv};
    return evaluate_(node, {.real = s}, variables).real;
  }
  /// Adds to all numbers of a tensor.
  void change(int tensor, double by) { changed_ = tensor, change_ = by; }
  bool is_sure() const { return evaluate_.is_sure(); }

 private:
  Tensors tensors_;
  int changed_ = -1;
  double change_ = 0;
  Evaluator evaluate_;
};

const char* const scores[] = {
    "s*s*0.5-3.0*s",
    "20.0*tanh(s/20.0)+t[h,kv]",
    "s+u[h]*(kv-p)",
    "s*sigmoid(t[h,q])-u[h]",
    "s-exp(-u[h]*u[h])*t[h,q]*t[h,kv]",
    "where(kv<=q,s*t[h,kv],log(float(kv-q)*abs(s)+0.1))",
    "min(s,t[h,q])+max(s*2.0,u[h])",
    "abs(s-t[h,kv])+sqrt(abs(u[h])+1.0)+rsqrt(s*s+1.0)",
    "sin(s)*cos(u[h])+exp2(t[h,q])+log2(abs(s)+2.0)",
    "pow(abs(s)+0.5,t[h,kv])+s%2.5+s//0.7",
    "s/(t[h,kv]*t[h,kv]+1.0)-floor(s)*u[h]",
    "s+t[h,min(max(q-kv,0),6)]",
};

TEST(FunctionDerivative, IsTheLimitOfDifferences) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  constexpr double step = 1e-6;
  for (const char* text : scores) {
    Function function = function_of(text);
    const Derivatives all = derivatives(function, {0, 1});
    Tensors tensors;
    for (double& x : tensors.t) x = normal(random);
    for (double& x : tensors.u) x = normal(random);
    Place place(function, tensors);
    for (int i = 0; i < 20; ++i) {
      const double s = normal(random);
      const std::int32_t q = i % 5, kv = i % 7;
      const auto difference = [&](auto value) { return (value(step) - value(-step)) / (2 * step); };
      const double by_s =
          difference([&](double change) { return place.value(function.root, s + change, q, kv); });
      EXPECT_NEAR(place.value(all.by_score, s, q, kv), by_s, 1e-6 * (1 + std::fabs(by_s))) << text;
      for (const int tensor : {0, 1}) {
        const double by_tensor = difference([&](double change) {
          place.change(tensor, change);
          return place.value(function.root, s, q, kv);
        });
        place.change(-1, 0);
        double sum = 0;
        for (const LoadDerivative& load : all.loads)
          if (function.tree[load.load].which == tensor) sum += place.value(load.derivative, s, q, kv);
        EXPECT_NEAR(sum, by_tensor, 1e-6 * (1 + std::fabs(by_tensor))) << text << " by tensor " << tensor;
      }
    }
  }
}

TEST(FunctionDerivative, IsConstantWhereItCanBe) {
  const auto slope = [](std::string_view text) {
    Function function = function_of(text);
    function.root = derivatives(function, {}).by_score;
    return print(function);
  };
  EXPECT_EQ(slope("s+u[h]*(kv-p)"), "1.0");
  EXPECT_EQ(slope("s*u[h]"), "u[h]");
  EXPECT_EQ(slope("s*0.25"), "0.25");
  EXPECT_EQ(slope("floor(s)"), "0.0");
  EXPECT_EQ(slope("where(kv<=q,s,-inf)"), "where(kv<=q,1.0,0.0)");
}

/// At ties both sides count half; what `where` does not take leaves no NaN.
TEST(FunctionDerivative, AtItsEdges) {
  const auto slope_at_zero = [](std::string_view text) {
    Function function = function_of(text);
    const NodeIndex slope = derivatives(function, {}).by_score;
    return Place(function, {}).value(slope, 0, 1, 1);
  };
  EXPECT_EQ(slope_at_zero("min(s,s*3.0)"), 2);
  EXPECT_EQ(slope_at_zero("max(s,0.0)"), 0.5);
  EXPECT_EQ(slope_at_zero("abs(s)"), 0);
  EXPECT_EQ(slope_at_zero("where(kv<=q,s,sqrt(s)/s)"), 1);
}

TEST(FunctionValue, KnowsWhereRoundingDecides) {
  const Function function = function_of("s+float(int(8.0*log(u[h])/log(16.0)))");
  Tensors tensors;
  tensors.u[1] = 16;
  Place power(function, tensors);
  power.value(function.root, 0, 1, 1);
  EXPECT_FALSE(power.is_sure());  // 8, or a little less
  tensors.u[1] = 15.5;
  Place other(function, tensors);
  other.value(function.root, 0, 1, 1);
  EXPECT_TRUE(other.is_sure());
}

}  // namespace
}  // namespace regard::function
