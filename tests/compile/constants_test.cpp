// Whatever distinguishes two kernels reaches their sources: every field of the key, every target feature.
#include "compile/constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <type_traits>

#include "problem/fields.h"
#include "problem/words.h"

namespace regard {
namespace {

using testing::HasSubstr;

Target some_target() {
  Target target;
  target.name = "cpu-test";
  return target;
}

/// Sets `member` to each of its other values (a number: to one other) and expects a new text each time.
template <class Value, class Text>
void expect_each_value_differs(std::string_view name, Value& member, const Text& text) {
  const Value before = member;
  std::set<std::string> seen = {text()};
  const auto expect_new = [&](Value value) {
    member = value;
    EXPECT_TRUE(seen.insert(text()).second) << name;
  };
  if constexpr (std::is_same_v<Value, bool>) {
    expect_new(!before);
  } else if constexpr (std::is_enum_v<Value>) {
    for (std::size_t i = 0; i < words_of<Value>().size(); ++i) {
      if (static_cast<Value>(i) != before) expect_new(static_cast<Value>(i));
    }
  } else if constexpr (!std::is_same_v<Value, InternedText>) {  // no kernel is made for a function
    expect_new(before + 1);
  }
  member = before;
}

TEST(Constants, EverySignatureFieldChangesThem) {
  KernelKey key;
  for_each_signature_field(
      [&](Field field, auto& member) {
        expect_each_value_differs(info(field).name, member, [&] { return constants(key, some_target()); });
      },
      key.signature);
}

TEST(Constants, EveryAlgorithmFieldChangesThem) {
  KernelKey key;
#define REGARD_CHANGE(name, default_value, doc) \
  expect_each_value_differs(#name, key.algorithm.name, [&] { return constants(key, some_target()); });
  REGARD_ALGORITHM_FIELDS(REGARD_CHANGE)
#undef REGARD_CHANGE
}

TEST(Constants, EveryFeatureChangesThem) {
  const KernelKey key;
  for (const TargetKind kind : {TargetKind::cpu, TargetKind::cuda, TargetKind::hip}) {
    Target target = some_target();
    target.kind = kind;
    std::set<std::string> seen = {constants(key, target)};
    for (const Feature feature : features_of(kind)) {
      target.features = {feature};
      EXPECT_TRUE(seen.insert(constants(key, target)).second) << word(feature);
    }
  }
}

TEST(Constants, SizesOfAMachineChangeThem) {
  KernelKey key;
  Target cpu = some_target(), gpu = some_target();
  gpu.kind = TargetKind::hip;
  expect_each_value_differs("vector_bytes", cpu.vector_bytes, [&] { return constants(key, cpu); });
  expect_each_value_differs("vector_registers", cpu.vector_registers, [&] { return constants(key, cpu); });
  expect_each_value_differs("wave", gpu.wave, [&] { return constants(key, gpu); });
  expect_each_value_differs("dies", gpu.dies, [&] { return constants(key, gpu); });
}

TEST(Constants, ReadAsTheyAreWrittenInTheKey) {
  KernelKey key;
  key.signature = *parse_signature("bwd fp16 d=96 dv=64 mask=window softcap");
  key.algorithm.block_k = 48;
  const std::string text = constants(key, some_target());
  for (const char* line : {"constexpr Pass pass = Pass::bwd;", "constexpr DType dtype = DType::fp16;",
                           "constexpr long long d = 96;", "constexpr long long dv = 64;",
                           "constexpr Mask mask = Mask::window;", "constexpr bool softcap = true;",
                           "constexpr bool dropout = false;", "constexpr long long block_k = 48;"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace regard
