// row_max, the largest score of each row, against the oracle: by the forward, decode and generic kernels of
// every CPU, whole and in parts.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace regard::test {
namespace {

/// The kernels that take a problem of this family on every CPU that this one can be, and the generic one.
std::vector<Path> kernels(const char* family) {
  std::vector<Path> paths;
  for (const std::string& target : runnable_targets()) {
    if (is_gpu(target)) continue;
    paths.push_back({target, family});
    paths.push_back({target, "generic"});
  }
  return paths;
}

/// Scores that rise from one step of keys to the next, so that the number that weights are relative to has to
/// move, and scores below 0 alone.
CaseOptions steep() {
  CaseOptions options;
  options.q_scale = 5;
  return options;
}

TEST(RowMax, OfManyRows) {
  for (const char* dtype : {"fp32", "bf16", "fp16"})
    for (const char* rest : {"sq=70 sk=600 d=64", "sq=131 sk=131 d=64 mask=causal sink", "sq=65 sk=3 d=64"})
      expect_right_by_each(std::string("fwd ") + dtype + " row_max b=2 hq=4 hk=2 " + rest, kernels("forward"),
                           steep());
}

TEST(RowMax, BesideOtherWords) {
  for (const char* rest : {"mask=window:20,5 lse", "ranges", "bits sink", "softcap=2 lse",
                           "bias=1h mask=causal", "bias=alibi_b", "dropout=0.2 lse", "lengths mask=causal",
                           "varlen tq=150 tk=190", "scale=-0.3", "scale=0", "layout=bhsd batch_invariant"})
    expect_right_by_each(std::string("fwd bf16 row_max b=2 hq=4 hk=2 sq=90 sk=210 d=64 ") + rest,
                         kernels("forward"));
}

TEST(RowMax, OfFewRows) {
  std::vector<Path> paths;
  for (const std::string& target : runnable_targets())
    if (!is_gpu(target)) paths.push_back({target, "decode"});
  for (const char* keys : {"sk=300", "sk=700 splits=3"})
    for (const char* rest : {"fwd fp32 d=64 lse sink", "fwd bf16 d=64 mask=causal", "fwd fp16 d=64 softcap=2",
                             "fwd bf16 d=64 lengths", "fwd bf16 d=64 paged=16 kv=fp8 descale=head lengths"})
      expect_right_by_each(std::string(rest) + " row_max b=2 hq=4 hk=2 sq=2 " + keys, paths, steep());
}

TEST(RowMax, OfParts) {
  std::vector<Path> paths;
  for (const std::string& target : runnable_targets())
    if (!is_gpu(target)) paths.push_back({target, "forward"});
  for (const char* rest : {"mask=causal lse", "sink mask=window:30,0"})
    expect_right_by_each(std::string("fwd bf16 row_max h=2 sq=200 sk=1500 d=64 splits=4 ") + rest, paths,
                         steep());
}

TEST(RowMax, OfFunctions) {
  for (const char* function :
       {"score=s-slope[h]*abs(kv-p) tensors=slope:fp32[1]", "keep=(q//8==kv//8)!=(h<2)",
        "score=where(kv<5,s+1.5,s*sigmoid(s)) keep=kv!=q", "score=where(kv%3==0,s,-inf)"})
    expect_right(std::string("fwd fp32 row_max b=2 h=2 sq=11 sk=67 d=20 ") + function, {});
}

TEST(RowMax, IsNaNWhereTheRowIs) {
  CaseOptions options;
  options.nan_row = 3;
  for (const char* family : {"forward", "generic"})
    expect_right("fwd fp32 row_max lse h=1 sq=70 sk=200 d=64", {runnable_targets().front(), family}, options);
  options = {};
  options.nan_key = 150;
  for (const char* family : {"forward", "generic"})
    expect_right("fwd fp32 row_max lse h=1 sq=70 sk=200 d=64 mask=causal_top_left",
                 {runnable_targets().front(), family}, options);
  for (const char* keys : {"sk=300", "sk=600 splits=2"})
    expect_right(std::string("fwd fp32 row_max lse h=1 sq=1 d=64 ") + keys,
                 {runnable_targets().front(), "decode"}, options);
}

}  // namespace
}  // namespace regard::test
