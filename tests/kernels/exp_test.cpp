// The exponentials of the CPU kernels against fp64, compiled for every target of this machine in the same
// way as its kernels. The bounds are those stated in their comment and in docs/cpu.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "compile/constants.h"
#include "compile/host_options.h"
#include "compile/toolchain.h"
#include "device/cpu/cpu.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

const std::string root = REGARD_SOURCE_DIR;
constexpr const char* precisions[] = {"bf16", "bf16_sum", "beside", "fp32"};

std::string text_of(const std::string& path) {
  std::ifstream file(root + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The number as written in the comment, "7.5e-5".
std::string stated_bound(const std::string& precision) {
  const std::string header = text_of("kernels/cpu/exp.h");
  std::smatch found;
  const bool there =
      std::regex_search(header, found, std::regex("\n  " + precision + ",? +// [^\n]*?([0-9.]+e-[0-9]+)"));
  return there ? found[1].str() : "";
}

/// A function of exp.h on some target.
class Function {
 public:
  Function(const std::string& target, const std::string& name) {
    const Target& described = **find_target(target);
    KernelKey key;
    key.target = described.name;
    const std::string source = constants(key, described) + R"(
#include "kernels/cpu/exp.h"
struct Call { const float* x; float* y; };
extern "C" __attribute__((visibility("default"))) void all_of(const void*, long long count, void* given) {
  const Call call = *static_cast<Call*>(given);
  for (long long i = 0; i < count; i += regard::lanes)
    regard::store(call.y + i, regard::)" +
                               name + R"((regard::load<regard::Floats>(call.x + i)));
}
)";
    std::vector<std::string> options(host_options.begin(), host_options.end());
    options.insert(options.end(), described.options.begin(), described.options.end());
    options.push_back("-I" + root);
    const auto compiled = (*toolchain_for(described))->compile({"all_of", source, options});
    if (!compiled) {
      ADD_FAILURE() << compiled.error().message;
      return;
    }
    module_ = *cpu::load(compiled->binary, "all_of");
  }
  explicit operator bool() const { return module_ != nullptr; }

  std::vector<float> operator()(const std::vector<float>& x) const {
    std::vector<float> padded = x, y;
    padded.resize((x.size() + 15) / 16 * 16);
    y.resize(padded.size());
    struct {
      const float* x;
      float* y;
    } call{padded.data(), y.data()};
    module_->function()(nullptr, static_cast<long long>(padded.size()), &call);
    y.resize(x.size());
    return y;
  }

 private:
  std::shared_ptr<cpu::Module> module_;
};

Function exp2_of(const std::string& target, const std::string& precision) {
  return {target, "exp2<regard::Precision::" + precision + ">"};
}

/// Every 61st float from -125 to 127, including both ends and numbers around 0; tiny ones all give 1.
std::vector<std::vector<float>> samples() {
  constexpr std::size_t most = 1 << 16;
  std::vector<std::vector<float>> chunks = {{-125, 127, 0, -0.0f, 1, -1, 1e-40f, -1e-40f}};
  for (const float end : {-125.0f, 127.0f}) {
    const auto sign = std::bit_cast<std::uint32_t>(end) & 0x80000000u;
    for (auto bits = std::bit_cast<std::uint32_t>(0x1p-30f);
         (bits | sign) < std::bit_cast<std::uint32_t>(end); bits += 61) {
      if (chunks.back().size() == most || chunks.size() == 1) chunks.emplace_back().reserve(most);
      chunks.back().push_back(std::bit_cast<float>(bits | sign));
    }
  }
  return chunks;
}

TEST(Exp2, RelativeErrorIsWithinTheStatedBound) {
  const std::string page = text_of("docs/cpu.md");
  struct Variant {
    std::string name;
    Function exp2;
    double bound, worst = 0;
    float at = 0;
  };
  std::vector<Variant> variants;
  for (const std::string precision : precisions) {
    const std::string bound = stated_bound(precision);
    ASSERT_NE(bound, "") << precision;
    EXPECT_NE(page.find(bound), std::string::npos) << "docs/cpu.md does not name " << bound;
    for (const std::string& target : runnable_targets()) {
      variants.push_back({precision + " on " + target, exp2_of(target, precision), std::stod(bound)});
      ASSERT_TRUE(variants.back().exp2);
    }
  }
  std::vector<double> right;
  for (const std::vector<float>& x : samples()) {
    right.clear();
    for (const float one : x) right.push_back(std::exp2(static_cast<double>(one)));
    for (Variant& variant : variants) {
      const std::vector<float> y = variant.exp2(x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double error = std::abs(y[i] / right[i] - 1);
        if (error <= variant.worst) continue;
        variant.worst = std::isnan(error) ? HUGE_VAL : error;
        variant.at = x[i];
      }
    }
  }
  for (const Variant& variant : variants) {
    RecordProperty(variant.name, std::to_string(variant.worst / variant.bound));
    EXPECT_LE(variant.worst, variant.bound) << variant.name << " at " << variant.at;
  }
}

TEST(Exp2, OutsideOfItsRange) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const std::string precision : precisions) {
    for (const std::string& target : runnable_targets()) {
      const Function exp2 = exp2_of(target, precision);
      ASSERT_TRUE(exp2);
      const std::vector<float> y =
          exp2({-infinity, std::nanf(""), -126, -126.5f, -149, -150, -1000, -3.4e38f});
      EXPECT_EQ(y[0], 0) << precision << " on " << target;
      EXPECT_TRUE(std::isnan(y[1])) << precision << " on " << target;
      for (std::size_t i = 2; i < y.size(); ++i) {
        EXPECT_GE(y[i], 0) << precision << " on " << target;
        EXPECT_LE(y[i], 0x1.001p-126f) << precision << " on " << target;
      }
    }
  }
}

/// The relative error that the header states after these words.
double stated_error(const std::string& words) {
  std::smatch found;
  const std::string header = text_of("kernels/cpu/exp.h");
  EXPECT_TRUE(std::regex_search(header, found, std::regex(words + ", relative error ([0-9.]+e-[0-9]+)")));
  return found.empty() ? 0 : std::stod(found[1].str());
}

TEST(Tanh, RelativeErrorIsWithinTheStatedBoundNear0) {
  const double bound = stated_error("\\|x\\| is at most 1/2");
  std::vector<float> x;
  for (auto bits = std::bit_cast<std::uint32_t>(0x1p-30f); bits <= std::bit_cast<std::uint32_t>(0.5f);
       bits += 31)
    for (const float sign : {1.0f, -1.0f}) x.push_back(sign * std::bit_cast<float>(bits));
  x.push_back(0.5f);
  for (const std::string& target : runnable_targets()) {
    const Function tanh(target, "tanh_near_0");
    ASSERT_TRUE(tanh);
    const std::vector<float> y = tanh(x);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = std::abs(y[i] / std::tanh(static_cast<double>(x[i])) - 1);
      worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
    }
    RecordProperty("tanh near 0 on " + target, std::to_string(worst / bound));
    EXPECT_LE(worst, bound) << target;
    const std::vector<float> ends = tanh({0, std::nanf("")});
    EXPECT_EQ(ends[0], 0) << target;
    EXPECT_TRUE(std::isnan(ends[1])) << target;
  }
}

TEST(Tanh, EachLaneIsOfTheFormThatServesIt) {
  const std::vector<float> small{0.0f, -0.0f, 0.25f, 0.5f, -0.5f, 1e-40f},
      large{std::nextafter(0.5f, 1.0f), -0.75f, 3.0f, -100.0f, HUGE_VALF, -HUGE_VALF};
  std::vector<float> mixed = small;
  mixed.insert(mixed.end(), large.begin(), large.end());
  mixed.push_back(std::nanf(""));
  for (const std::string& target : runnable_targets()) {
    const Function by_lane(target, "tanh_by_lane"), near_0(target, "tanh_near_0"), far(target, "tanh");
    ASSERT_TRUE(by_lane && near_0 && far);
    const std::vector<float> y = by_lane(mixed), of_small = near_0(small), of_large = far(large);
    for (std::size_t i = 0; i < small.size(); ++i)
      EXPECT_EQ(y[i], of_small[i]) << small[i] << " on " << target;
    for (std::size_t i = 0; i < large.size(); ++i)
      EXPECT_EQ(y[small.size() + i], of_large[i]) << large[i] << " on " << target;
    EXPECT_TRUE(std::isnan(y[mixed.size() - 1])) << target;
  }
}

TEST(Tanh, RelativeErrorIsWithinTheStatedBound) {
  const double bound = stated_error("tanh\\(x\\)");
  std::vector<float> x;
  for (auto bits = std::bit_cast<std::uint32_t>(0x1p-30f); bits < std::bit_cast<std::uint32_t>(100.0f);
       bits += 997)
    for (const float sign : {1.0f, -1.0f}) x.push_back(sign * std::bit_cast<float>(bits));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const std::string& target : runnable_targets()) {
    const Function tanh(target, "tanh"), slope(target, "tanh_slope");
    ASSERT_TRUE(tanh && slope);
    const std::vector<float> y = tanh(x), slopes = slope(x);
    double worst = 0, worst_slope = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = std::abs(y[i] / std::tanh(static_cast<double>(x[i])) - 1);
      if (!(error <= worst)) worst = error, at = x[i];
      const double cosh = std::cosh(static_cast<double>(x[i]));
      if (std::abs(x[i]) < 20) worst_slope = std::max(worst_slope, std::abs(slopes[i] * cosh * cosh - 1));
    }
    RecordProperty("tanh on " + target, std::to_string(worst / bound));
    EXPECT_LE(worst, bound) << target << " at " << at;
    // The argument of its exponential is rounded, and the error is multiplied by its magnitude.
    EXPECT_LE(worst_slope, 20 * 0x1p-22) << target;
    const std::vector<float> ends = tanh({infinity, -infinity, 0, std::nanf("")});
    EXPECT_LE(std::max(std::abs(ends[0] - 1), std::abs(ends[1] + 1)), bound) << target;
    EXPECT_EQ(ends[2], 0) << target;
    EXPECT_TRUE(std::isnan(ends[3])) << target;
  }
}

}  // namespace
}  // namespace regard::test
