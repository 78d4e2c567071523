// The contents of a manifest, and the message for a mistake in one: file, line, and what would work.
#include "aot/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "generated_docs.h"
#include "problem/words.h"
#include "support/temporary_folder.h"

namespace regard::aot {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view head = "[build]\ntargets = [\"cpu-avx2\"]\n";

std::string refusal_of(const std::string& text, const std::string& path = "te.toml") {
  const Result<Manifest> manifest = parse_manifest(text, path);
  return manifest ? "none" : manifest.error().message;
}

TEST(Manifest, HasWhatItSays) {
  const Result<Manifest> manifest = parse_manifest(R"(
[build]
namespace = "te_2"
targets = ["sm_90a", "cpu-avx512bf16"]
output = ["static", "bundle"]
undeclared = "portable"
[[variants]]
d = [64, 128]
mask = ["none", "causal"]
recipes = ["forward"]
[[variants]]
profile = "flash"
[[variants]]
profile = "default"
recipes = ["decode"]
[[variants]]
problems = [
  "fwd bf16 s=64 d=64",
  "bwd bf16 h=4 s=64 d=64",
]
[[exclude]]
dtype = "fp16"
)",
                                                   "folder/te.toml");
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->file, "folder/te.toml");
  EXPECT_EQ(manifest->name_space, "te_2");
  std::vector<std::string> targets;
  for (const Target* target : manifest->targets) targets.push_back(target->name);
  EXPECT_THAT(targets, ElementsAre("sm_90a", "cpu-avx512bf16"));
  EXPECT_THAT(manifest->outputs, ElementsAre(Output::archive, Output::bundle));
  EXPECT_EQ(manifest->undeclared, Undeclared::generic);
  ASSERT_EQ(manifest->variants.size(), 4u);
  EXPECT_EQ(manifest->variants[0].line, 7);
  EXPECT_EQ(manifest->variants[0].products[0].signatures.size(), 4u);
  EXPECT_THAT(manifest->variants[0].products[0].recipes, ElementsAre("forward"));
  EXPECT_EQ(manifest->variants[1].what, "profile flash");
  EXPECT_TRUE(manifest->variants[1].products[0].recipes.empty());
  for (const Variant& variant : manifest->variants[2].products)
    EXPECT_THAT(variant.recipes, ElementsAre("decode"));  // replaces the profile's own
  ASSERT_EQ(manifest->variants[3].problems.size(), 2u);
  EXPECT_EQ(manifest->variants[3].problems[1].line, 19);
  EXPECT_EQ(print(manifest->variants[3].problems[1].problem), "bwd bf16 b=1 h=4 s=64 d=64");
  ASSERT_EQ(manifest->exclude.size(), 1u);
  EXPECT_EQ(manifest->exclude[0].line, 21);
}

TEST(Manifest, IsABundleAndCompilesTheRestWhereItDoesNotSay) {
  const Result<Manifest> manifest = parse_manifest(std::string(head) + "[[variants]]\nd = 64\n", "te.toml");
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_THAT(manifest->outputs, ElementsAre(Output::bundle));
  EXPECT_EQ(manifest->undeclared, Undeclared::jit);
  EXPECT_EQ(manifest->name_space, "");
}

TEST(Manifest, AMistakeNamesFileLineAndWhatWouldWork) {
  const std::string variants = "[[variants]]\nd = 64\n";
  struct Case {
    std::string text, message;
  };
  const Case cases[] = {
      // the file
      {"", "te.toml:1: the table [build] is missing"},
      {"build = 3\n" + variants, "te.toml:1: 'build' must be a table, [build]"},
      {"[build\n", "te.toml:1:"},
      {"[biuld]\n" + variants, "te.toml:1: unknown key 'biuld'; did you mean 'build'?"},
      {"variants = 3\n" + std::string(head), "te.toml:1: 'variants' must be a list of tables"},
      {std::string(head), "te.toml:1: it has neither [[variants]] nor [[binaries]]"},
      {std::string(head) + "[[exclude]]\nd = 64\n", "te.toml:1: it has neither [[variants]]"},
      // [build]
      {"[build]\nnamespace = \"te\"\n" + variants, "te.toml:1: the key 'targets' is missing"},
      {"[build]\ntargets = []\n" + variants, "te.toml:2: 'targets' is an empty list"},
      {"[build]\ntargets = \"cpu-avx2\"\n" + variants, "te.toml:2: 'targets' must be a list of strings"},
      {"[build]\ntargets = [\"sm_90b\"]\n" + variants,
       "te.toml:2: unknown target 'sm_90b'; did you mean 'sm_90a'?"},
      {"[build]\ntargets = [\"sm_90a\",\n\"sm_90a\"]\n" + variants,
       "te.toml:2: 'sm_90a' is twice in 'targets'"},
      {"[build]\ntarget = [\"sm_90a\"]\n" + variants,
       "te.toml:2: unknown key 'target'; did you mean 'targets'?"},
      {std::string(head) + "output = []\n" + variants, "te.toml:3: 'output' is an empty list"},
      {std::string(head) + "output = [\"bundel\"]\n" + variants,
       "te.toml:3: 'bundel' is no value of 'output'; did you mean 'bundle'?"},
      {std::string(head) + "output = [\"bundle\", \"bundle\"]\n" + variants,
       "te.toml:3: 'bundle' is twice in 'output'"},
      {std::string(head) + "output = [\"shared\"]\n" + variants,
       "te.toml:1: the output 'shared' needs a 'namespace'"},
      {std::string(head) + "output = [\"bundle\", \"static\"]\n" + variants,
       "te.toml:1: the output 'static' needs a 'namespace'"},
      {std::string(head) + "output = [\"python\"]\n" + variants,
       "te.toml:1: the output 'python' needs a 'namespace'"},
      {std::string(head) + "undeclared = \"jti\"\n" + variants,
       "te.toml:3: 'jti' is no undeclared; did you mean 'jit'?"},
      {std::string(head) + "namespace = \"regard\"\n" + variants,
       "te.toml:3: the namespace 'regard' has 'regard' in it"},
      {std::string(head) + "namespace = \"my_regard2\"\n" + variants, "'my_regard2' has 'regard' in it"},
      {std::string(head) + "namespace = \"\"\n" + variants, "te.toml:3: '' is not a namespace"},
      {std::string(head) + "namespace = \"2te\"\n" + variants,
       "te.toml:3: '2te' is not a namespace; it is 1 to 64 lower-case letters"},
      {std::string(head) + "namespace = \"Te\"\n" + variants, "te.toml:3: 'Te' is not a namespace"},
      {std::string(head) + "namespace = \"_te\"\n" + variants, "te.toml:3: '_te' is not a namespace"},
      {std::string(head) + "namespace = \"te_\"\n" + variants, "te.toml:3: 'te_' is not a namespace"},
      {std::string(head) + "namespace = \"te-2\"\n" + variants, "te.toml:3: 'te-2' is not a namespace"},
      {std::string(head) + "namespace = \"tä\"\n" + variants, "te.toml:3: 'tä' is not a namespace"},
      {std::string(head) + "namespace = \"" + std::string(65, 'a') + "\"\n" + variants, "is not a namespace"},
      // [[variants]]
      {std::string(head) + "[[variants]]\nmaks = \"causal\"\nd = 64\n",
       "te.toml:4: unknown key 'maks'; did you mean 'mask'?"},
      {std::string(head) + "[[variants]]\nd = []\n", "te.toml:4: 'd' is an empty list"},
      {std::string(head) + "[[variants]]\nd = 64\nmask = \"causl\"\n", "did you mean 'causal'?"},
      {std::string(head) + "[[variants]]\nmask = \"causal\"\n",
       "te.toml:3: no combination of this table makes sense"},
      {std::string(head) + "[[variants]]\npass = [\"fwd\", \"bwd\"]\nd = 64\nlse = true\n",
       "te.toml:3: no combination of this table with bwd makes sense: "},
      {std::string(head) + "[[variants]]\nd = 64\nb = 2\n", "te.toml:5: unknown key 'b'"},
      {std::string(head) + "[[variants]]\nprofile = \"falsh\"\n",
       "te.toml:4: unknown profile 'falsh'; did you mean 'flash'?"},
      {std::string(head) + "[[variants]]\nprofile = \"flash\"\nd = 64\n",
       "te.toml:5: 'd' does not go with 'profile', which allows only 'recipes' with it"},
      {std::string(head) + "[[variants]]\nprofile = [\"flash\"]\n", "te.toml:4: 'profile' must be a string"},
      {std::string(head) + "[[variants]]\nprofile = \"flash\"\nrecipes = [\"decod\"]\n",
       "te.toml:5: 'decod' is no value of 'recipes'; did you mean 'decode'?"},
      {std::string(head) + "[[variants]]\nproblems = [\"fwd s=8 d=8\"]\nrecipes = [\"decode\"]\n",
       "te.toml:5: 'recipes' does not go with 'problems', which must be alone"},
      {std::string(head) + "[[variants]]\nproblems = []\n", "te.toml:4: 'problems' is an empty list"},
      {std::string(head) + "[[variants]]\nproblems = \"fwd s=8 d=8\"\n",
       "te.toml:4: 'problems' must be a list of strings"},
      {std::string(head) + "[[variants]]\nproblems = [\"fwd s=8 d=8\",\n\"fwd s=8 d=8 msak=causal\"]\n",
       "te.toml:5: unknown word 'msak=causal'; did you mean 'mask'?"},
      {std::string(head) + "[[variants]]\nproblems = [\"fwd hq=3 hk=2 s=8 d=8\"]\n", "te.toml:4: hq=3"},
      {std::string(head) + "[[variants]]\nproblems = [\"fwd s=8 d=8\", \"fwd s=8 d=8\"]\n",
       "te.toml:4: 'fwd s=8 d=8' is twice in 'problems'"},
      {std::string(head) + "[[variants]]\nrecord = \"nowhere.txt\"\n",
       "te.toml:3: the record 'nowhere.txt' cannot be read: it cannot be opened: No such file or directory"},
      {std::string(head) + "[[variants]]\nrecord = \".\"\n",
       "te.toml:3: the record '.' cannot be read: it is not a file"},
      // [[exclude]]
      {std::string(head) + variants + "[[exclude]]\n",
       "te.toml:5: it has no keys, and would leave everything out"},
      {std::string(head) + variants + "[[exclude]]\nd = []\n", "te.toml:6: 'd' is an empty list"},
      {std::string(head) + variants + "[[exclude]]\nprofile = \"flash\"\n",
       "te.toml:6: unknown key 'profile'"},
      {std::string(head) + variants + "[[exclude]]\ndtype = \"bf61\"\n", "te.toml:6: "},
      // [[binaries]]
      {std::string(head) + "[[binaries]]\nkey = \"cpu-avx2 cpu_decode | fwd d=8\"\n",
       "te.toml:3: the key 'file' is missing"},
      {std::string(head) + "[[binaries]]\nfile = \"x.co\"\n", "te.toml:3: the key 'key' is missing"},
      {std::string(head) + "[[binaries]]\nfile = \"x.co\"\nkey = \"fwd bf16 d=128\"\n",
       "te.toml:3: 'fwd bf16 d=128' is no kernel key"},
      {std::string(head) + "[[binaries]]\nfile = \"x.co\"\nkey = \"cpu-avx2 cpu_decod | fwd d=8\"\n",
       "te.toml:3: 'cpu_decod' is no kernel; did you mean 'cpu_decode'?"},
      {std::string(head) + "[[binaries]]\nfile = \"x.co\"\nkey = \"cpu-avx2 cpu_decode | fwd d=8\"\n",
       "te.toml:3: the file 'x.co' cannot be used: it cannot be opened: No such file or directory"},
      {std::string(head) + "[[binaries]]\nname = \"x.co\"\n", "te.toml:4: unknown key 'name'"},
  };
  for (const Case& c : cases) {
    const std::string refusal = refusal_of(c.text);
    EXPECT_THAT(refusal, HasSubstr(c.message)) << c.text;
    EXPECT_THAT(refusal, testing::Not(HasSubstr("\n"))) << c.text;
  }
}

TEST(Manifest, HasABoundedNumberOfSignatures) {
  std::string text(head);
  for (int i = 0; i < 100; ++i) text += "[[variants]]\nprofile = \"all\"\n";
  EXPECT_THAT(refusal_of(text), HasSubstr("te.toml:99: with this table its signatures are more than 262144"));
}

TEST(Manifest, TakesRecordsAndFilesFromBesideItself) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/te.toml";
  std::ofstream(folder.path() + "/seen.txt") << "# seen\n\ncpu-avx2 | fwd bf16 b=1 h=1 s=64 d=64\n"
                                                "sm_90a | fwd bf16 b=1 h=1 s=64 d=64\n"
                                                "cpu-avx2 | fwd bf16 b=1 h=1 s=64 d=64\n";
  std::ofstream(folder.path() + "/x.co") << "code";
  std::ofstream(path) << head << "[[variants]]\nrecord = \"seen.txt\"\n[[binaries]]\nfile = \"x.co\"\n"
                      << "key = \"cpu-avx2 cpu_generic_forward | any fwd\"\n";
  const Result<Manifest> manifest = read_manifest(path);
  ASSERT_TRUE(manifest) << manifest.error().message;
  const std::vector<Manifest::Asked>& problems = manifest->variants.at(0).problems;
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].target->name, "cpu-avx2");
  EXPECT_EQ(problems[1].target->name, "sm_90a");
  EXPECT_EQ(problems[1].line, 3);
  EXPECT_THAT(problems[1].where, testing::EndsWith("/seen.txt:4"));
  ASSERT_EQ(manifest->binaries.size(), 1u);
  EXPECT_EQ(manifest->binaries[0].path, folder.path() + "/x.co");
  const Result<Manifest> missing = read_manifest(folder.path() + "/none.toml");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, AllOf(HasSubstr("the manifest '"), HasSubstr("No such file")));
  std::ofstream(folder.path() + "/seen.txt")
      << "cpu-avx2 | fwd bf16 s=64 d=64\ncpu-avx2 fwd bf16 s=64 d=64\n";
  EXPECT_THAT(read_manifest(path).error().message,
              AllOf(HasSubstr("te.toml:3: "), HasSubstr("seen.txt:2: "),
                    HasSubstr("is not a line that REGARD_RECORD writes")));
  std::ofstream(folder.path() + "/seen.txt") << "# nothing\n";
  EXPECT_THAT(read_manifest(path).error().message, HasSubstr("te.toml:3: the record"));
  std::ofstream(folder.path() + "/seen.txt") << "cpu-avx2 | fwd bf16 s=64 d=64\n";
  std::ofstream(path, std::ios::app)
      << "[[binaries]]\nfile = \"x.co\"\nkey = \"cpu-avx2 cpu_generic_forward | any fwd\"\n";
  EXPECT_THAT(read_manifest(path).error().message,
              HasSubstr("te.toml:8: its key has a file already, in line 5"));
}

TEST(Manifest, IsDocumentedKeyByKey) {
  std::ifstream file(REGARD_SOURCE_DIR "/docs/build.md");
  std::string page((std::istreambuf_iterator<char>(file)), {});
  std::map<std::string, std::set<std::string>> documented;  // keys by table
  const std::regex row("\\n\\| `\\[+([a-z]+)\\]+` `([a-z]+)` \\|");
  for (std::sregex_iterator match(page.begin(), page.end(), row), end; match != end; ++match)
    documented[(*match)[1]].insert((*match)[2]);
  const std::map<std::string, std::string> tables = {
      {"build", "[build]\n"}, {"variants", "[[variants]]\n"}, {"binaries", "[[binaries]]\n"}};
  for (const auto& [table, opening] : tables) {
    const std::string refusal = refusal_of(opening + "zzzzzzzzzzzzzzzzzz = 1\n");
    const std::size_t list = refusal.find("; one of: ");
    ASSERT_NE(list, std::string::npos) << refusal;
    std::set<std::string> known;
    const std::regex word("[a-z_]+");
    for (std::sregex_iterator match(refusal.begin() + static_cast<long>(list) + 10, refusal.end(), word), end;
         match != end; ++match)
      known.insert(match->str());
    if (table == "variants")  // the fields are those of problem.md
      for (const std::string_view key : {"profile", "problems", "record", "recipes"})
        EXPECT_TRUE(known.contains(std::string(key)) && documented[table].contains(std::string(key))) << key;
    else
      EXPECT_EQ(documented[table], known) << table;
  }
}

TEST(Manifest, HasItsWordsDocumented) {
  std::string table = "| key | word | meaning |\n|---|---|---|\n";
  const auto add = [&table](std::string_view key, std::span<const WordInfo> words) {
    for (const WordInfo& info : words)
      table += fmt::format("| `{}` | `{}` | {} |\n", key, info.word, info.doc);
  };
  add("output", words_of<Output>());
  add("undeclared", words_of<Undeclared>());
  expect_generated_docs("build.md", table);
}

}  // namespace
}  // namespace regard::aot
