// Profiles: the signatures that each allows, the exact number of its kernels, and messages for mistakes.
#include "plan/profile.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "plan/plan.h"
#include "plan/stage.h"

namespace regard {
namespace {

using testing::HasSubstr;

const Profile& profile(std::string_view name) {
  const Result<const Profile*> found = find_profile(name);
  if (!found) throw std::runtime_error(found.error().message);
  return **found;
}

TEST(Profiles, NeedExactlyTheseKernels) {
  struct Row {
    std::string_view profile;
    std::size_t signatures, generic, avx2, avx512, hopper, cdna;
  };
  const Row rows[] = {
      {"aiter", 10420, 1145, 1373, 1601, 2937, 1476},
      {"all", 5406, 5780, 6647, 7514, 10785, 8417},
      {"default", 32, 53, 59, 65, 153, 63},
      {"flash", 6168, 873, 1065, 1257, 3032, 1064},
      {"jax", 3888, 731, 839, 947, 1545, 1065},
      {"pytorch", 6732, 515, 587, 659, 1089, 841},
      {"transformer_engine", 10472, 424, 488, 552, 980, 514},
      {"vllm", 1220, 616, 820, 1024, 2343, 597},
  };
  EXPECT_EQ(profile_names().size(), std::size(rows));
  for (const Row& row : rows) {
    const Profile& one = profile(row.profile);
    EXPECT_EQ(one.signatures.size(), row.signatures) << row.profile;
    const std::pair<std::string_view, std::size_t> expected[] = {
        {"cpu-generic", row.generic},   {"cpu-avx2", row.avx2},  {"cpu-avx512", row.avx512},
        {"cpu-avx512bf16", row.avx512}, {"cpu-amx", row.avx512}, {"cpu-neon", row.avx512},
        {"cpu-neon-bf16", row.avx512},  {"sm_90a", row.hopper},  {"gfx942", row.cdna}};
    for (const auto& [name, count] : expected) {
      const Result<const Target*> target = find_target(name);
      ASSERT_TRUE(target);
      const Result<std::vector<KernelKey>> kernels = keys_of_profile(one, **target);
      ASSERT_TRUE(kernels) << kernels.error().message;
      EXPECT_EQ(kernels->size(), count) << row.profile << " on " << name;
    }
  }
}

/// The kernels that a target needs for a profile with one table.
std::vector<KernelKey> kernels_for(const std::string& variant, std::string_view target) {
  const Result<const Target*> found = find_target(target);
  const Result<Profile> one = parse_profile("doc = \"d\"\n[[variants]]\n" + variant, "profiles/mine.toml");
  if (!one) throw std::runtime_error(one.error().message);
  return keys_of_profile(*one, **found).value();
}
std::vector<KernelKey> hopper_kernels(const std::string& variant) {
  return kernels_for(variant, "sm_90a");
}

TEST(Profiles, HaveHoppersKernelsForFewRowsOfSeveralHeadsAndForSplitKeys) {
  using Heads = std::pair<std::int64_t, std::int64_t>;  // query rows of a tile, whether heads share it
  const auto heads_of = [](const char* variant, bool split = false) {
    std::vector<Heads> list;
    for (const KernelKey& key : hopper_kernels(variant)) {
      const Algorithm& algorithm = key.algorithm;
      if (algorithm.kernel == "sm90_forward" && algorithm.split == (split ? 1 : 0))
        list.emplace_back(algorithm.block_q, algorithm.pack_gqa);
    }
    return list;
  };
  using testing::UnorderedElementsAre;
  const auto pack_gqa_and = [](auto... others) {
    return UnorderedElementsAre(Heads(64, 1), Heads(128, 1), others...);
  };
  const Heads plain(128, 0), large(192, 0);
  EXPECT_THAT(heads_of("d = 256\n"), pack_gqa_and(plain, plain));  // one of the two in clusters
  EXPECT_THAT(heads_of("d = 256\nvarlen = true\n"), pack_gqa_and(plain));
  EXPECT_THAT(heads_of("d = 256\nvarlen = true\n", true), pack_gqa_and(plain));
  // Large tiles neither pack nor split, and those in clusters do neither.
  EXPECT_THAT(heads_of("d = 128\n"), pack_gqa_and(plain, plain, large, large));
  EXPECT_THAT(heads_of("d = 128\n", true), pack_gqa_and(plain));
  EXPECT_THAT(heads_of("d = 128\nbatch_invariant = true\n", true),
              UnorderedElementsAre(Heads(128, 1), plain));
  // The order does not matter.
  EXPECT_THAT(heads_of("d = 256\nlengths = [true, false]\n"), pack_gqa_and(plain, plain));
  EXPECT_THAT(heads_of("d = 256\nlengths = true\nvarlen = [true, false]\n"), pack_gqa_and(plain));
}

// Otherwise an inference engine that compiles nothing would lack a kernel for some shapes.
TEST(Profiles, HaveTheKernelsThatPlansChoose) {
  const Result<const Target*> hopper = find_target("sm_90a");
  ASSERT_TRUE(hopper);
  for (const int d : {64, 128, 256}) {
    std::set<std::string> texts;
    for (const KernelKey& key : hopper_kernels(fmt::format("d = {}\nmask = [\"none\", \"causal\"]\n", d)))
      texts.insert(print(key));
    for (const int heads : {1, 2, 3, 4, 8, 16}) {
      for (const int sq : {1, 3, 5, 9, 17, 33, 64, 65, 128, 200, 1024}) {
        for (const int sk : {100, 1000, 8192}) {
          for (const char* mask : {"none", "causal"}) {
            const std::string text =
                fmt::format("fwd bf16 b=2 hk=4 hq={} sq={} sk={} d={} mask={}", 4 * heads, sq, sk, d, mask);
            const Result<Problem> problem = parse(text);
            ASSERT_TRUE(problem) << problem.error().message;
            const Result<Plan> made = plan(*problem, **hopper, {});
            ASSERT_TRUE(made) << made.error().message;
            for (const Stage& stage : made->stages)
              EXPECT_TRUE(texts.contains(print(stage.key))) << text << ": " << print(stage.key);
          }
        }
      }
    }
  }
}

TEST(Profiles, HaveTheKernelsOfEveryStageOfBackwardThatPlansChoose) {
  for (const char* target : {"sm_90a", "sm_80", "sm_75", "cpu-avx2"}) {
    const Target& of = **find_target(target);
    for (const int d : {64, 128, 256}) {
      std::set<std::string> texts;
      for (const KernelKey& key : kernels_for(
               fmt::format(
                   "pass = \"bwd\"\ndtype = \"fp16\"\nd = {}\nmask = [\"none\", \"causal\"]\n"
                   "dropout = [false, true]\ndeterministic = [false, true]\nlengths = [false, true]\n",
                   d),
               target))
        texts.insert(print(key));
      for (const char* shape : {"hq=8 hk=8 s=1024", "hq=8 hk=1 s=100", "hq=1 hk=1 sq=1 sk=5000",
                                "hq=2 hk=2 sq=4000 sk=64", "hq=32 hk=8 s=64 lengths", "h=1 sq=0 sk=9"}) {
        for (const char* rest : {"", "mask=causal", "mask=causal deterministic", "dropout=0.1"}) {
          for (const char* family : {"", "portable_backward"}) {
            if (of.on_cpu() && *family != 0) continue;
            const std::string text = fmt::format("bwd fp16 b=2 d={} {} {}", d, shape, rest);
            const Result<Problem> problem = parse(text);
            ASSERT_TRUE(problem) << problem.error().message;
            const Result<Plan> made = plan(*problem, of, {.family = family});
            ASSERT_TRUE(made) << made.error().message;
            for (const Stage& stage : made->stages)
              EXPECT_TRUE(texts.contains(print(stage.key))) << text << ": " << print(stage.key);
          }
        }
      }
    }
  }
}

TEST(Profiles, LetThroughWhatTheirConsumersAskForAndNothingElse) {
  struct Case {
    std::string_view profile, signature;
    bool passes;
  };
  const Case cases[] = {
      {"flash", "fwd bf16 d=128 mask=causal softcap lse", true},
      {"flash", "bwd bf16 d=128 mask=causal softcap bias=alibi_b", true},
      {"flash", "fwd bf16 d=128 bias=bh", false},
      {"flash", "fwd fp32 d=128", false},
      {"flash", "fwd bf16 d=128 sink", false},
      {"pytorch", "bwd fp32 d=64 mask=causal_top_left bias=bh dbias", true},
      {"pytorch", "bwd fp16 d=64 bias=11 bias_type=fp32 dbias", true},
      {"pytorch", "fwd bf16 d=64 softcap", false},
      {"pytorch", "fwd bf16 d=64 bias=alibi", false},
      {"transformer_engine", "fwd bf16 d=128 mask=window_top_left lse", true},
      {"transformer_engine", "fwd bf16 d=128 bias=bh bias_type=fp32 lse", false},
      {"transformer_engine", "fwd bf16 d=128", false},
      {"transformer_engine", "fwd bf16 d=192 dv=128 bias=bh lse", false},
      {"aiter", "fwd fp8 d=128 descale=tensor", true},
      {"aiter", "fwd fp8 d=64 descale=tensor", false},
      {"jax", "bwd fp32 d=64 bias=11 dbias", true},
      {"jax", "fwd bf16 d=64 bias=11 bias_type=fp32", true},
      {"jax", "fwd bf16 d=64 sink", false},
      {"vllm", "fwd bf16 d=128 mask=causal varlen paged sink", true},
      {"vllm", "bwd bf16 d=128", false},
      {"default", "fwd fp32 d=64 mask=causal", true},
      {"default", "fwd fp32 d=96", false},
      {"all", "bwd bf16 d=77 dv=3 mask=causal bits sink dropout softcap bias=bh dbias", true},
      {"all", "bwd fp8 d=64", false},
      {"all", "bwd bf16 d=64 bias=alibi dbias", false},
  };
  for (const Case& c : cases) {
    const Result<Signature> signature = parse_signature(c.signature);
    ASSERT_TRUE(signature) << c.signature << signature.error().message;
    EXPECT_EQ(lets_through(profile(c.profile), *signature), c.passes) << c.profile << ": " << c.signature;
  }
}

TEST(Profiles, OnlyHaveSignaturesThatMakeSense) {
  for (std::string_view name : profile_names()) {
    for (const Signature& signature : profile(name).signatures) {
      const Status status = validate(example_of(signature));
      ASSERT_TRUE(status) << name << ": " << print(signature) << ": " << status.error().message;
    }
  }
}

TEST(Profiles, AnExampleOfASignatureIsAValidProblemOfIt) {
  for (const char* text : {
           "fwd bf16 d=64 paged kv=int8 descale=page kv_layout=vectorized",
           "fwd bf16 d=64 varlen left_padding",
           "fwd bf16 d=64 varlen left_padding paged table=sglang",
           "fwd bf16 d=64 rope=half rotary=6 rope_type=fp32 positions=sequence varlen",
           "fwd bf16 d=64 mask=window softcap dropout lengths",
           "append bf16 d=64 slots=int64 rope=half rotary=6 positions=token paged",
           "append fp16 d=64 kv=fp8 descale=token left_padding lengths",
           "merge bf16 d=64 accumulate varlen",
       }) {
    const Result<Signature> of = parse_signature(text);
    ASSERT_TRUE(of) << text << ": " << of.error().message;
    EXPECT_EQ(print(*of), print(signature(example_of(*of))));
    const Status status = validate(example_of(*of));
    EXPECT_TRUE(status) << text << ": " << status.error().message;
  }
}

TEST(Profiles, AnUnknownNameNamesTheNearest) {
  const Result<const Profile*> found = find_profile("pytroch");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("unknown profile 'pytroch'; did you mean 'pytorch'?"));
}

TEST(ProfileFile, OmittedKeysHaveTheirDefaultAndListsMultiply) {
  const Result<Profile> one = parse_profile(
      "doc = \"d\"\n[[variants]]\nd = [64, 128]\nmask = [\"none\", \"causal\"]\n", "profiles/mine.toml");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->name, "mine");
  std::vector<std::string> texts;
  for (const Signature& signature : one->signatures) texts.push_back(print(signature));
  EXPECT_THAT(texts, testing::UnorderedElementsAre("fwd bf16 d=64", "fwd bf16 d=64 mask=causal",
                                                   "fwd bf16 d=128", "fwd bf16 d=128 mask=causal"));
}

TEST(ProfileFile, TheProductIsCountedBeforeItIsMade) {
  std::string numbers = "1";
  for (int i = 2; i <= 600; ++i) numbers += ", " + std::to_string(i);
  const Result<Profile> one = parse_profile(
      "doc = \"d\"\n[[variants]]\nd = [" + numbers + "]\ndv = [" + numbers + "]\n", "profiles/mine.toml");
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message,
              HasSubstr("profiles/mine.toml:4: with 'dv' the lists of this table make 360000 combinations"));
}

TEST(ProfileFile, AMistakeNamesFileLineAndTheNearestRightWord) {
  struct Case {
    std::string_view text, message;
  };
  const Case cases[] = {
      {"doc = \"d\"\n[[variants]]\nd = 64\nmaks = \"causal\"\n",
       "profiles/mine.toml:4: unknown key 'maks'; did you mean 'mask'?"},
      {"doc = \"d\"\n[[variants]]\nd = 64\nmask = \"causl\"\n", "did you mean 'causal'?"},
      {"doc = \"d\"\n[[variants]]\nd = 64\nmask = \"causl\"\n", "profiles/mine.toml:2:"},
      {"doc = \"d\"\n[[variants]]\nd = 6.5\n", "profiles/mine.toml:3: 'd' must be a string, a whole number"},
      {"doc = \"d\"\n[[variants]]\nmask = \"causal\"\n",
       "profiles/mine.toml:2: no combination of this table makes sense"},
      {"doc = \"d\"\n[[variant]]\nd = 64\n",
       "profiles/mine.toml:2: unknown key 'variant'; did you mean 'variants'?"},
      {"doc = \"d\"\n[[variants]]\nd = 64\nrecipes = [\"decod\"]\n",
       "profiles/mine.toml:4: 'decod' is no value of 'recipes'; did you mean 'decode'?"},
      {"[[variants]]\nd = 64\n", "the key 'doc' is missing"},
      {"doc = \"d\"\n", "it has no [[variants]]"},
      {"doc = \n", "profiles/mine.toml:1:"},
  };
  for (const Case& c : cases) {
    const Result<Profile> one = parse_profile(c.text, "profiles/mine.toml");
    ASSERT_FALSE(one) << c.text;
    EXPECT_THAT(one.error().message, HasSubstr(std::string(c.message))) << c.text;
  }
}

}  // namespace
}  // namespace regard
