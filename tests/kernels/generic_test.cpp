// The generic kernels against the oracle: every feature, every dtype, every target of this machine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/support.h"
#include "oracle/tolerance.h"

namespace regard::test {
namespace {

const std::vector<std::string> features = {
    "",
    "lse",
    "mask=causal lse",
    "mask=causal_top_left",
    "mask=window:40,10 lse",
    "mask=window:0,0",
    "mask=window:30,0,sink=3",
    "mask=window:20,5,top_left,sink=70",
    "ranges lse",
    "bits lse",
    "mask=causal ranges bits lse",
    "bias=11",
    "bias=1h mask=causal",
    "bias=b1 lse",
    "bias=bh lse",
    "bias=1h bias_type=fp32 lse",
    "bias=alibi lse",
    "bias=alibi_b mask=causal",
    "softcap=2 lse",
    "softcap=0.5 mask=causal",
    "softcap=0.5 bias=1h mask=causal lse",
    "softcap=2 bias=alibi_b lengths",
    "sink lse",
    "sink mask=window:10,0",
    "dropout=0.2",
    "dropout=0.5 mask=causal sink bias=bh lse",
    "scale=-0.3",
    "lengths mask=causal lse",
    "varlen lse",
    "varlen lengths mask=causal sink lse",
    "varlen ranges bits bias=1h dropout=0.1 lse",
};

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

/// The features after `words`, as forward or backward problems. Packed tensors have no other layout.
std::vector<std::string> each_feature(const std::string& words, const std::string& layout = "") {
  std::vector<std::string> texts;
  for (std::string feature : features) {
    if (has(words, "bwd")) {
      if (const std::size_t lse = feature.find("lse"); lse != std::string::npos) feature.erase(lse, 3);
      if (has(feature, "bias=") && !has(feature, "alibi")) feature += " dbias";
    }
    texts.push_back(words + " " + feature + (has(feature, "varlen") ? "" : " " + layout));
  }
  return texts;
}

class Generic : public testing::TestWithParam<std::string> {
 protected:
  Path path() const { return {GetParam(), "generic", 2}; }
};

TEST_P(Generic, ForwardOfEveryFeature) {
  expect_all_right(each_feature("fwd fp32 b=3 hq=4 hk=2 sq=70 sk=133 d=20 dv=12"), path());
  CaseOptions padded;
  padded.padded_rows = padded.broadcast = padded.only_lengths_k = true;
  expect_all_right(each_feature("fwd bf16 b=3 h=2 sq=67 sk=65 d=8", "layout=bhsd"), path(), padded);
}

TEST_P(Generic, BackwardOfEveryFeature) {
  expect_all_right(each_feature("bwd fp32 b=3 hq=4 hk=2 sq=70 sk=133 d=20 dv=12"), path());
  CaseOptions padded;
  padded.padded_rows = padded.broadcast = padded.only_lengths_k = true;
  expect_all_right(each_feature("bwd fp16 b=3 h=2 sq=67 sk=65 d=8", "layout=sbhd"), path(), padded);
}

TEST_P(Generic, ABiasBehindASoftCapInOddSizes) {
  for (const char* shape : {"d=1 sq=1 sk=5", "d=7 dv=40 sq=70 sk=3", "d=59 sq=3 sk=130", "d=111 sq=65 sk=64"})
    for (const char* bias : {"bias=b1", "bias=alibi_b"})
      for (const char* pass : {"fwd fp16 lse", "bwd fp32"})
        expect_right(fmt::format("{} b=2 hq=6 hk=2 softcap=0.5 {} {}", pass, shape, bias), path());
}

TEST_P(Generic, EveryDtype) {
  for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
    expect_right("fwd " + dtype + " b=2 h=2 s=90 d=64 mask=causal lse", path());
    expect_right("bwd " + dtype + " b=2 h=2 s=90 d=64 mask=causal bias=1h dbias sink", path());
  }
  for (const std::string dtype : {"fp8", "fp8_e5m2", "fp8_fnuz", "fp8_e5m2_fnuz"}) {
    for (const std::string out : {"bf16", "fp16", "fp32", dtype.c_str()})
      expect_right("fwd " + dtype + " b=2 h=2 s=90 d=32 lse bias=11 out=" + out, path());
    expect_right("fwd " + dtype + " b=2 hq=4 hk=2 s=90 d=32 descale=head lse", path());
    expect_right("fwd " + dtype + " b=2 hq=4 hk=2 s=90 d=32 descale=tensor softcap=3", path());
  }
}

TEST_P(Generic, EveryHeadDimensionBetweenVectors) {
  for (const char* dims : {"d=1", "d=2 dv=3", "d=7 dv=65", "d=33 dv=16", "d=80 dv=96", "d=111",
                           "d=192 dv=128", "d=512", "d=576 dv=512"}) {
    expect_right(std::string("fwd bf16 h=1 sq=5 sk=70 lse ") + dims, path());
    expect_right(std::string("bwd bf16 h=1 sq=5 sk=70 ") + dims, path());
  }
}

TEST_P(Generic, TailsAndEmptySides) {
  for (const char* sizes : {"s=1", "s=63", "s=64", "s=65", "s=127", "sq=1 sk=200", "sq=200 sk=1", "sq=5 sk=0",
                            "sq=130 sk=64 mask=causal", "sq=64 sk=130 mask=causal"}) {
    expect_right(std::string("fwd fp32 h=1 d=16 lse ") + sizes, path());
    expect_right(std::string("bwd fp32 h=1 d=16 sink ") + sizes, path());
  }
}

TEST_P(Generic, ExtremeLogits) {
  CaseOptions huge, negative, sinks;
  huge.q_scale = 1000;
  negative.bias_offset = -30000;
  sinks.sink_offset = 60;
  for (const std::string dtype : {"fp32", "bf16"}) {
    expect_right("fwd " + dtype + " h=2 s=100 d=16 lse mask=causal", path(), huge);
    expect_right("fwd " + dtype + " h=2 s=100 d=16 lse bias=bh mask=causal", path(), negative);
    expect_right("fwd " + dtype + " h=2 s=100 d=16 lse sink", path(), sinks);
    expect_right("bwd " + dtype + " h=2 s=100 d=16 sink", path(), sinks);
    expect_right("bwd " + dtype + " h=2 s=100 d=16 bias=bh dbias", path(), negative);
  }
}

TEST_P(Generic, DropoutMaskIsWrittenForEveryColumn) {
  expect_right("fwd fp32 b=2 h=2 sq=70 sk=100 d=8 dropout=0.3 dropout_mask mask=causal", path());
  expect_right("fwd fp32 b=3 h=2 sq=40 sk=90 d=8 dropout=0.3 dropout_mask varlen lengths", path());
}

TEST_P(Generic, SameBitsForAnyNumberOfThreads) {
  const Path one{GetParam(), "generic", 1}, two{GetParam(), "generic", 2};
  expect_same_bits("fwd bf16 b=2 h=3 s=150 d=32 mask=causal lse", one, two);
  expect_same_bits("bwd bf16 b=2 hq=4 hk=2 s=150 d=32 bias=11 dbias sink deterministic", one, two);
}

TEST(GenericLong, SequencesTakeLinearMemoryAndSkipMaskedTiles) {
  // 2^32 pairs: computing or storing them all would take forever.
  expect_right("fwd bf16 h=1 s=65536 d=8 mask=window:100,0,sink=4 lse", {"", "generic", 2});
}

// See Forward.NanIsNotHidden.
TEST_P(Generic, NanIsNotHidden) {
  for (const char* rest :
       {"fp32 sq=70 sk=200", "bf16 sq=70 sk=200 mask=window:20,3", "fp16 sq=70 sk=200 bits sink",
        "fp32 varlen b=3 s=90 tq=200 tk=200 mask=causal", "fp8 out=bf16 sq=70 sk=200"})
    for (const bool of_q : {true, false}) {
      CaseOptions options;
      (of_q ? options.nan_row : options.nan_key) = 60;
      expect_right(std::string("fwd lse h=2 d=24 ") + rest, {GetParam(), "generic", 2}, options);
    }
}

/// Two independent ways to the same result: they differ by at most the sum of both error bounds.
void expect_agreement(const std::string& text, const Path& path) {
  Case c(text);
  Path generic = path;
  generic.family = "generic";
  ASSERT_EQ(run(c, generic), "") << c.description();
  oracle::Outputs expected = oracle::run(c.problem(), c.arguments(), {2, 0, 0}).value();
  for (auto& [role, output] : expected) {
    for (std::size_t i = 0; i < output.value.size(); ++i) {
      output.error[i] +=
          oracle::tolerance(c.arguments().tensor[role].dtype, output.value[i], output.error[i]);
      output.value[i] = c.get(role, static_cast<std::int64_t>(i));
    }
  }
  c.poison_outputs();
  ASSERT_EQ(run(c, path), "") << c.description();
  EXPECT_EQ(c.mistakes(expected), "") << c.description() << " on " << path.target << " " << path.family;
}

TEST_P(Generic, AgreesWithTheSpecialisedKernels) {
  const auto agree = [&](const std::string& words) {
    expect_agreement("fwd " + words + " lse", {GetParam(), "forward", 2});
    expect_agreement("bwd " + words, {GetParam(), "backward", 2});
  };
  for (const std::string dtype : {"fp32", "bf16", "fp16"})
    for (const char* mask : {"", " mask=causal"}) agree(dtype + " b=2 h=2 s=150 d=64" + mask);
  agree("bf16 b=2 hq=4 hk=2 s=150 d=64 mask=causal bias=bh dropout=0.1 sink");
}

INSTANTIATE_TEST_SUITE_P(Targets, Generic, testing::ValuesIn(runnable_targets()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace regard::test
