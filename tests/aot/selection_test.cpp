// Exactly which kernels a manifest selects, and for which of its lines.
#include "aot/selection.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <map>

#include "plan/kernel_finder.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "support/counted.h"
#include "support/temporary_folder.h"

namespace regard::aot {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAreArray;

/// A manifest for these targets whose tables begin in line 3, and its selection; either may have failed.
struct Selected {
  explicit Selected(const std::string& tables, const std::string& targets = "\"sm_90a\", \"cpu-avx2\"",
                    const std::string& path = "te.toml")
      : manifest(parse_manifest(fmt::format("[build]\ntargets = [{}]\n{}", targets, tables), path)),
        selection(manifest ? select(*manifest) : tl::unexpected(manifest.error())) {}

  std::vector<std::string> kernels(std::size_t target = 0) const {
    std::vector<std::string> texts;
    for (const Selection::Kernel& kernel : selection.value().targets.at(target).kernels)
      texts.push_back(kernel.text);
    return texts;
  }
  const Selection::Count& count(std::size_t variants, std::size_t target) const {
    return selection.value().variants.at(variants).counts.at(target);
  }
  std::string refusal() const { return selection ? "none" : selection.error().message; }

  Result<Manifest> manifest;
  Result<Selection> selection;
};

const Target& target(std::string_view name) {
  const Result<const Target*> found = find_target(name);
  if (!found) throw std::runtime_error(found.error().message);
  return **found;
}

std::vector<std::string> texts_of(const std::vector<KernelKey>& keys) {
  std::vector<std::string> texts;
  for (const KernelKey& key : keys) texts.push_back(print(key));
  return texts;
}

TEST(Selection, OfAProfileIsWhatTheProfileNeeds) {
  for (const std::string name : {"default", "flash"}) {
    const Selected selected("[[variants]]\nprofile = \"" + name + "\"\n");
    const Result<const Profile*> profile = find_profile(name);
    ASSERT_TRUE(profile);
    for (const std::size_t i : {0, 1}) {
      const auto needed = keys_of_profile(**profile, target(i == 0 ? "sm_90a" : "cpu-avx2"));
      ASSERT_TRUE(needed);
      EXPECT_EQ(selected.kernels(i), texts_of(*needed)) << name;
    }
  }
}

// The 24 variants in the manifest of TransformerEngine's ROCm build: LSE is always written; types, biases,
// masks and dropout come in all combinations.
TEST(Selection, OfTransformerEngines24Variants) {
  const Selected selected(R"([[variants]]
d = 128
dtype = ["bf16", "fp16"]
bias = ["none", "bh", "alibi"]
mask = ["none", "causal"]
dropout = [false, true]
lse = true
)",
                          "\"sm_90a\", \"cpu-avx2\", \"cpu-generic\"");
  ASSERT_TRUE(selected.selection) << selected.refusal();
  ASSERT_EQ(selected.manifest->variants[0].products[0].signatures.size(), 24u);
  for (const std::size_t i : {0, 1, 2}) {
    EXPECT_EQ(selected.count(0, i).asked, 24u);
    EXPECT_EQ(selected.count(0, i).unserved, 0u);
    EXPECT_EQ(selected.count(0, i).kernels, selected.kernels(i).size());
  }
  EXPECT_EQ(selected.kernels(0).size(), 158u);
  // 24 forward kernels; 12 decode kernels (no dropout) in 3 tiles each; 2 that merge; the generic one.
  EXPECT_EQ(selected.kernels(1).size(), 63u);
  EXPECT_EQ(selected.kernels(2).size(), 51u);  // with 2 tiles
  EXPECT_EQ(selected.selection->count(), 158u + 63u + 51u);
}

TEST(Selection, HasEachKernelOnceAndTheLinesThatAsked) {
  const Selected selected(R"([[variants]]
d = 64
recipes = ["decode"]
[[variants]]
d = [64, 111]
lse = true
recipes = ["decode"]
)",
                          "\"cpu-avx2\"");
  ASSERT_TRUE(selected.selection) << selected.refusal();
  std::map<std::string, std::set<int>> lines;
  for (const Selection::Kernel& kernel : selected.selection->targets[0].kernels)
    lines[kernel.text.substr(kernel.text.find(" | ") + 3)].insert(kernel.lines.begin(), kernel.lines.end());
  using Lines = std::set<int>;
  EXPECT_THAT(lines, ElementsAre(std::pair("fwd bf16", Lines{3, 6}), std::pair("fwd bf16 d=111", Lines{6}),
                                 std::pair("fwd bf16 d=64", Lines{3, 6})));
  EXPECT_EQ(selected.count(0, 0).kernels, 4u);  // 3 tiles, and the merge
  EXPECT_EQ(selected.count(1, 0).kernels, 7u);
  EXPECT_EQ(selected.selection->count(), 7u);
  EXPECT_TRUE(std::ranges::is_sorted(selected.kernels()));
}

// Counts and lists are computed by different code.
TEST(Selection, HasTheCountsOfItsLists) {
  for (const std::string tables : {"[[variants]]\nprofile = \"default\"\n[[variants]]\nd = [64, 59]\n",
                                   "[[variants]]\nproblems = [\"fwd s=9 d=8\", \"fwd s=8 d=8\"]\n"}) {
    const Selected listed(tables);
    const Result<Selection> counted = select(*listed.manifest, Detail::counts);
    ASSERT_TRUE(counted);
    EXPECT_EQ(to_json(*listed.manifest, *counted, Detail::counts),
              to_json(*listed.manifest, *listed.selection, Detail::counts));
    for (const std::size_t i : {0, 1}) EXPECT_EQ(counted->targets[i].count, listed.kernels(i).size());
  }
}

// A manifest of a few lines can select a million kernels, and a record has thousands of problems, so the
// memory for each must stay small. Once, each kernel took a text, a key and nodes in several trees.
TEST(Selection, TakesLittleForEachKernelAndProblem) {
  if (!test::counts) GTEST_SKIP() << "sanitizers have malloc for themselves";
  std::string dims = "1", problems = "\"fwd h=4 s=1 d=64\"";
  for (int i = 2; i <= 100; ++i) {
    dims += fmt::format(", {}", i);
    problems += fmt::format(", \"fwd h=4 sq=1 sk={} d=64\"", 100 * i);
  }
  const auto allocations_of = [](const std::string& tables, std::size_t& kernels) {
    const Result<Manifest> manifest = parse_manifest(
        "[build]\ntargets = [\"sm_90a\", \"cpu-avx2\", \"cpu-avx512\"]\n[[variants]]\n" + tables, "te.toml");
    const test::Counted counted =
        test::counted([&] { kernels = select(*manifest, Detail::counts).value().count(); });
    return static_cast<double>(counted.allocations);
  };
  std::size_t kernels = 0;
  const double of_product =
      allocations_of("mask = [\"none\", \"causal\"]\nlse = [true, false]\nd = [" + dims + "]\n", kernels);
  EXPECT_LT(of_product / static_cast<double>(kernels), 8);
  const double of_list = allocations_of("problems = [" + problems + "]\n", kernels);
  EXPECT_LT(of_list / 100, 4000);
}

TEST(Selection, OfProblemsIsWhatPlansChoose) {
  for (const std::string text :
       {"fwd bf16 b=2 h=16 s=1024 d=128 mask=causal", "fwd bf16 b=1 hq=32 hk=8 sq=1 sk=32768 d=128",
        "fwd fp16 b=3 h=5 sq=7 sk=3 d=111 dv=40 bias=bh", "fwd bf16 b=0 h=2 s=64 d=64"}) {
    const Selected selected("[[variants]]\nproblems = [\"" + text + "\"]\n");
    ASSERT_TRUE(selected.selection) << selected.refusal();
    const Result<Problem> problem = parse(text);
    const Result<Plan> on_gpu = plan(*problem, target("sm_90a"), {});
    ASSERT_TRUE(on_gpu);
    for (const Stage& stage : on_gpu->stages)
      EXPECT_THAT(selected.kernels(0), testing::Contains(print(stage.key)));
    std::set<std::string> on_cpu;
    for (int threads = 1; threads <= 4096; threads += threads < 200 ? 1 : threads / 10) {
      PlanOptions options;
      options.threads = threads;
      const Result<Plan> planned = plan(*problem, target("cpu-avx2"), options);
      ASSERT_TRUE(planned);
      for (const Stage& stage : planned->stages) on_cpu.insert(print(stage.key));
    }
    EXPECT_THAT(selected.kernels(1), UnorderedElementsAreArray(on_cpu)) << text;
  }
}

// Words take the place of functions, and a mask that becomes ranges or bits has a stage in front, whatever
// its numbers.
TEST(Selection, OfFunctionsIsWhatPlansOfThemChoose) {
  const std::string table = "[[variants]]\ndtype = \"bf16\"\nd = 64\npass = [\"fwd\", \"bwd\"]\n";
  const Selected bits(table + "keep = \"doc[b,q] == doc[b,kv] && q-kv < 64\"\ntensors = \"doc:int32[2]\"\n"),
      ranges(table + "keep = \"kv<=p || kv-3<past[b]\"\ntensors = \"past:int32[1]\"\n"),
      window(table + "keep = \"kv<=p && p-kv<9\"\n"), score(table + "score = \"s*s\"\n");
  for (const std::string of : {"fwd", "bwd"})
    for (const std::size_t i : {0, 1}) {
      const Target& on = target(i == 0 ? "sm_90a" : "cpu-avx2");
      const std::string shape = of + " bf16 d=64 b=3 h=2 s=900 ";
      for (const auto& [selected, text] :
           {std::pair{&bits, "keep=doc[b,q]==doc[b,kv]&&q-kv<7 tensors=doc:int32[2]"},
            std::pair{&ranges, "keep=kv<=p||kv-40<past[b] tensors=past:int32[1]"},
            std::pair{&window, "keep=kv<=p&&p-kv<70"}}) {
        ASSERT_TRUE(selected->selection) << selected->refusal();
        const Result<Plan> planned = plan(*parse(shape + text), on, {});
        ASSERT_TRUE(planned) << text;
        for (const Stage& stage : planned->stages)
          EXPECT_THAT(selected->kernels(i), testing::Contains(print(stage.key))) << text;
      }
    }
  ASSERT_TRUE(score.selection) << score.refusal();
  EXPECT_THAT(score.kernels(1),
              ElementsAre(HasSubstr("cpu_generic_backward"), HasSubstr("cpu_generic_forward")));
  EXPECT_EQ(score.count(0, 0).unserved, 2U);
  EXPECT_THAT(score.count(0, 0).why, HasSubstr("it does not take score yet"));
}

TEST(Selection, OfProblemsIsFewerThanOfTheirSignatures) {
  const Selected problem("[[variants]]\nproblems = [\"fwd bf16 b=2 h=16 s=4096 d=128 mask=causal\"]\n");
  ASSERT_TRUE(problem.selection) << problem.refusal();
  std::vector<std::string> kernels;
  for (const std::string& text : problem.kernels(0))
    kernels.push_back(text.substr(7, text.find(" block") - 7));
  // The portable kernel serves tensors whose layout does not suit tensor maps.
  EXPECT_THAT(kernels, ElementsAre("portable_forward", "sm90_forward"));
  EXPECT_THAT(problem.kernels(1), ElementsAre("cpu-avx2 cpu_combine | fwd bf16", HasSubstr(" cpu_forward ")));
}

TEST(Selection, OfARecordIsOfItsTargets) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/seen.txt") << "cpu-avx2 | fwd bf16 b=1 h=2 s=512 d=64\n"
                                                "cpu-avx512 | fwd bf16 b=1 h=2 s=512 d=128\n"
                                                "sm_90a | fwd bf16 b=1 h=2 s=512 d=256\n"
                                                "cpu-avx512 | fwd bf16 b=1 h=2 s=512 d=40\n"
                                                "cpu-avx2 | fwd bf";
  const std::string tables = "[[variants]]\nrecord = \"seen.txt\"\n", path = folder.path() + "/te.toml";
  const Selected selected(tables, "\"sm_90a\", \"cpu-avx2\"", path);
  ASSERT_TRUE(selected.selection) << selected.refusal();
  EXPECT_THAT(selected.kernels(0), testing::Each(HasSubstr("d=256")));
  EXPECT_THAT(selected.kernels(1), testing::Each(HasSubstr("d=64")));
  EXPECT_EQ(selected.count(0, 0).asked, 1u);
  EXPECT_THAT(
      selected.selection->warnings,
      ElementsAre(HasSubstr("seen.txt:5: the line 'cpu-avx2 | fwd bf' is left out"),
                  HasSubstr("te.toml:3: 2 problems of the record seen.txt are left out, as cpu-avx512 is "
                            "none of the targets")));
  EXPECT_THAT(Selected(tables, "\"sm_80\"", path).refusal(),
              HasSubstr("te.toml:3: none of the targets is one of this record"));
}

TEST(Selection, LeavesOutWhatIsExcludedBeforeKernelsAreMade) {
  const std::string both = "[[variants]]\nd = [64, 128]\nmask = [\"none\", \"causal\"]\n";
  const auto left = [](const Selected& selected) {
    EXPECT_TRUE(selected.selection) << selected.refusal();
    std::set<std::string> signatures;
    for (const std::string& text : selected.kernels()) signatures.insert(text.substr(text.find(" | ") + 3));
    return signatures;
  };
  const std::string avx2 = "\"cpu-avx2\"";
  const std::set<std::string> always = {"any fwd", "fwd bf16"};
  const auto and_always = [&](std::set<std::string> more) {
    more.insert(always.begin(), always.end());
    return UnorderedElementsAreArray(more);
  };
  EXPECT_THAT(left(Selected(both, avx2)), and_always({"fwd bf16 d=64", "fwd bf16 d=64 mask=window",
                                                      "fwd bf16 d=128", "fwd bf16 d=128 mask=window"}));
  EXPECT_THAT(left(Selected(both + "[[exclude]]\nd = 64\nmask = \"causal\"\n", avx2)),
              and_always({"fwd bf16 d=64", "fwd bf16 d=128", "fwd bf16 d=128 mask=window"}));
  EXPECT_THAT(left(Selected(both + "[[exclude]]\nd = [64, 59]\n", avx2)),
              and_always({"fwd bf16 d=128", "fwd bf16 d=128 mask=window"}));
  // A kernel that a remaining signature also needs stays: both masks share one kernel, and, where they hide
  // nothing, one without a mask.
  const Selected stays(
      "[[variants]]\nd = 64\nmask = [\"causal\", \"causal_top_left\"]\n[[exclude]]\nmask = \"causal\"\n",
      avx2);
  EXPECT_THAT(left(stays), and_always({"fwd bf16 d=64", "fwd bf16 d=64 mask=window"}));
  // Exclusion works for problems as well, and for values that are off.
  const Selected problems(
      "[[variants]]\nproblems = [\"fwd bf16 s=64 d=64\", \"fwd bf16 s=64 d=64 softcap=30\"]\n"
      "[[exclude]]\nsoftcap = false\n",
      avx2);
  EXPECT_THAT(left(problems), testing::Each(HasSubstr("softcap")));
  EXPECT_EQ(problems.count(0, 0).asked, 1u);
}

TEST(Selection, WhatOnlySomeTargetsCanDoIsCounted) {
  const Selected selected(
      "[[variants]]\nd = 64\n[[variants]]\ndtype = [\"fp16\", \"bf16\"]\nd = 64\n"
      "[[variants]]\nproblems = [\"bwd bf16 s=64 d=64\"]\n",
      "\"sm_75\", \"cpu-avx2\"");
  ASSERT_TRUE(selected.selection) << selected.refusal();
  EXPECT_EQ(selected.count(0, 0).kernels, 0u);
  EXPECT_EQ(selected.count(0, 0).unserved, 1u);
  EXPECT_THAT(selected.count(0, 0).why, HasSubstr("sm_75 does not compute in bf16"));
  EXPECT_GT(selected.count(0, 1).kernels, 0u);
  EXPECT_EQ(selected.count(0, 1).unserved, 0u);
  EXPECT_GT(selected.count(1, 0).kernels, 0u);
  EXPECT_EQ(selected.count(1, 0).unserved, 1u);
  EXPECT_EQ(selected.count(2, 0).unserved, 1u);
  EXPECT_EQ(selected.count(2, 0).kernels, 0u);
}

TEST(Selection, WhatNoKernelTakesHidesNothingElse) {
  for (const char* kv : {"[\"fp32\", \"fp8\"]", "[\"fp8\", \"fp32\"]"}) {
    const Selected selected(fmt::format("[[variants]]\ndtype = \"fp32\"\nd = 64\nkv = {}\n", kv),
                            "\"sm_90a\"");
    ASSERT_TRUE(selected.selection) << selected.refusal();
    EXPECT_EQ(selected.kernels(),
              Selected("[[variants]]\ndtype = \"fp32\"\nd = 64\n", "\"sm_90a\"").kernels())
        << kv;
    EXPECT_EQ(selected.count(0, 0).unserved, 1u) << kv;
  }
}

TEST(Selection, ARequestWithoutEffectIsAnErrorWithItsLine) {
  struct Case {
    std::string tables, message, targets = "\"sm_90a\"";
  };
  const std::string some = "[[variants]]\nd = 64\n";
  const Case cases[] = {
      {"[[variants]]\ndtype = \"fp16\"\nd = 64\n[[variants]]\nd = 64\n",
       "te.toml:6: none of the targets can do this: no plan for 'fwd bf16", "\"sm_75\""},
      {"[[variants]]\nd = 576\ndv = 512\n",
       "te.toml:3: none of the targets can do this: ", "\"gfx942\", \"gfx90a\""},
      {"[[variants]]\ndtype = \"fp32\"\nkv = \"fp8\"\nd = 64\n",
       "te.toml:3: none of the targets can do this: "},
      {"[[variants]]\nd = 64\nrecipes = [\"decode\"]\n",
       "te.toml:3: none of the targets can do this: ", "\"gfx942\""},
      {"[[variants]]\nproblems = [\"fwd fp16 s=64 d=64\",\n\"bwd bf16 s=64 d=64\"]\n",
       "te.toml:5: none of the targets can do this: ", "\"sm_75\""},
      {some + "[[exclude]]\nd = 128\n", "te.toml:5: this [[exclude]] leaves nothing out"},
      {some + "[[exclude]]\nd = 64\n", "te.toml:3: [[exclude]] leaves nothing of this table"},
  };
  for (const Case& c : cases) {
    const Selected selected(c.tables, c.targets);
    EXPECT_THAT(selected.refusal(), AllOf(HasSubstr(c.message), Not(HasSubstr("\n")))) << c.tables;
  }
}

TEST(Selection, OfThePagesExampleIsMade) {
  std::ifstream file(REGARD_SOURCE_DIR "/docs/build.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const std::size_t begin = page.find("```toml\n") + 8;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/seen.txt") << "sm_90a | fwd bf16 b=8 hq=32 hk=8 sq=1 sk=4096 d=128\n";
  const Result<Manifest> manifest = parse_manifest(example, folder.path() + "/te.toml");
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->variants.at(0).products.at(0).signatures.size(), 24u);
  const Result<Selection> selection = select(*manifest);
  ASSERT_TRUE(selection) << selection.error().message;
  EXPECT_THAT(selection->warnings, IsEmpty());
  for (const Selection::OfTarget& of_target : selection->targets)
    EXPECT_THAT(of_target.kernels, Not(IsEmpty()));
}

TEST(Binaries, StandInForTheKernelThatTheyAre) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/x.co") << "code";
  const std::string path = folder.path() + "/te.toml",
                    problems = "[[variants]]\nproblems = [\"fwd bf16 s=64 d=64\"]\n";
  const auto binary = [](std::string_view key) {
    return fmt::format("[[binaries]]\nfile = \"x.co\"\nkey = \"{}\"\n", key);
  };
  const Selected without(problems, "\"cpu-avx2\"", path);
  ASSERT_TRUE(without.selection) << without.refusal();
  const std::string key = without.kernels().at(0);
  const Selected with(problems + binary(key), "\"cpu-avx2\"", path);
  ASSERT_TRUE(with.selection) << with.refusal();
  EXPECT_EQ(with.kernels(), without.kernels());
  const Selection::Kernel& kernel = with.selection->targets[0].kernels[0];
  ASSERT_NE(kernel.binary, nullptr);
  EXPECT_EQ(kernel.binary->path, folder.path() + "/x.co");
  EXPECT_THAT(kernel.lines, ElementsAre(4, 5));
  const Selected alone(binary(key), "\"cpu-avx2\"", path);
  ASSERT_TRUE(alone.selection) << alone.refusal();
  EXPECT_THAT(alone.kernels(), ElementsAre(key));
  EXPECT_THAT(Selected(binary(key), "\"sm_90a\"", path).refusal(),
              HasSubstr("te.toml:3: its key is of 'cpu-avx2', which is no target of the manifest"));
  for (const std::string_view none : {"cpu-avx2 cpu_forward block_q=1 block_k=1 | fwd bf16 d=64",

                                      "cpu-avx2 sm90_forward block_q=64 block_k=64 warps=4 | fwd bf16 d=64",
                                      "cpu-avx2 cpu_forward | fwd bf16"})
    EXPECT_THAT(
        Selected(binary(none), "\"cpu-avx2\"", path).refusal(),
        AllOf(HasSubstr("te.toml:3: no plan on cpu-avx2 asks for the kernel"), HasSubstr("never be used")))
        << none;
}

TEST(Binaries, MayBeOfAnyKernelThatIsPlanned) {
  const Result<const Profile*> profile = find_profile("default");
  ASSERT_TRUE(profile);
  for (const std::string_view name : {"cpu-avx2", "cpu-amx", "sm_90a", "sm_80"}) {
    const Result<std::vector<KernelKey>> keys = keys_of_profile(**profile, target(name));
    ASSERT_TRUE(keys);
    for (const KernelKey& key : *keys) EXPECT_TRUE(is_needed_by_some_plan(key, target(name))) << print(key);
  }
}

}  // namespace
}  // namespace regard::aot
