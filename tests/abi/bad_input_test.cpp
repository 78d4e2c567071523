// Bad input through the C ABI, row by row: each gives the right status and one sentence with the wrong word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "regard/regard.h"
#include "support/temporary_folder.h"

namespace {

using ::testing::HasSubstr;

/// Expects that the last call returned this status and a one-line sentence that names the mistake.
void expect_refusal(regard_status status, regard_status expected, const std::string& word,
                    const std::string& input) {
  EXPECT_EQ(status, expected) << input;
  const std::string sentence = regard_status_message();
  EXPECT_THAT(sentence, HasSubstr(word)) << input;
  EXPECT_EQ(sentence.find_first_of("\n\r"), std::string::npos) << input << ": " << sentence;
  EXPECT_EQ(sentence.find_last_not_of(" ."), sentence.size() - 1) << input << ": " << sentence;
  EXPECT_THAT(sentence, ::testing::Not(::testing::ContainsRegex("[.!?] [A-Z]"))) << input;
}

/// A problem, with zeroed memory for its tensors as the library describes them.
struct Call {
  explicit Call(const char* text) {
    EXPECT_EQ(regard_problem_parse(text, &problem), REGARD_OK) << text << ": " << regard_status_message();
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      regard_use use;
      regard_tensor& tensor = arguments.tensor[i];
      EXPECT_EQ(regard_problem_tensor(problem, static_cast<regard_role>(i), &use, &tensor), REGARD_OK);
      if (use == REGARD_INPUT || use == REGARD_OUTPUT) tensor.data = memory.emplace_back(1 << 16).data();
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { regard_problem_destroy(problem); }

  regard_tensor& operator[](regard_role role) { return arguments.tensor[role]; }
  std::int32_t* integers(regard_role role) { return static_cast<std::int32_t*>((*this)[role].data); }

  regard_problem* problem = nullptr;
  std::vector<std::vector<char>> memory;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
};

// ---- problems ------------------------------------------------------------------------------------------

struct BadProblem {
  std::string text, word;
  friend void PrintTo(const BadProblem& bad, std::ostream* out) { *out << bad.text; }
};

class BadText : public ::testing::TestWithParam<BadProblem> {};
TEST_P(BadText, IsASentenceWithTheWord) {
  regard_problem* problem = nullptr;
  expect_refusal(regard_problem_parse(GetParam().text.c_str(), &problem), REGARD_INVALID, GetParam().word,
                 GetParam().text);
  EXPECT_EQ(problem, nullptr);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, BadText,
    ::testing::Values(
        BadProblem{"", "empty"},  //
        BadProblem{"fwd bf16 s=64 d=64 sofcap=3", "'softcap=3'"}, BadProblem{"fwd bf17 s=64 d=64", "'bf16'"},
        BadProblem{"fwd bf16 s=64 d=64 mask=causl", "causal"},
        BadProblem{"fwd bf16 s=64 d=64 mask=window:1", "mask=window:1"},
        BadProblem{"fwd bf16 s=64 d=64 sq=65", "'sq=65'"}, BadProblem{"fwd bf16 s=64 d=sixty", "sixty"},
        BadProblem{"fwd bf16 s=64\n\td=64\nmask=cau\x01sal", "mask"},
        BadProblem{"fwd bf16 hq=3 hk=2 s=64 d=64", "hq=3"}, BadProblem{"fwd bf16 s=64", "d is missing"},
        BadProblem{"fwd bf16 s=64 d=513", "d=513"}, BadProblem{"fwd bf16 b=-1 s=64 d=64", "b=-1"},
        BadProblem{"fwd bf16 sq=-64 sk=64 d=64", "sq=-64"},
        BadProblem{"fwd bf16 s=99999999999999999999 d=64", "99999999999999999999"},
        BadProblem{"fwd bf16 sq=4611686018427387904 sk=1 d=64", "sq=4611686018427387904"},
        BadProblem{"fwd bf16 b=1152921504606846976 s=64 d=64", "'q'"},
        BadProblem{"fwd bf16 varlen b=2147483647 s=2 d=8", "varlen"},
        BadProblem{"fwd bf16 out=fp32 s=64 d=64", "out=fp32"}, BadProblem{"bwd fp8 s=64 d=64", "fp8"},
        BadProblem{"fwd bf16 s=64 d=64 dropout=1", "dropout=1"},
        BadProblem{"fwd bf16 s=64 d=64 dropout=-0.1", "dropout=-0.1"},
        BadProblem{"fwd bf16 s=64 d=64 dropout=nan", "dropout"},
        BadProblem{"fwd bf16 s=64 d=64 softcap=-1", "softcap=-1"},
        BadProblem{"bwd bf16 s=64 d=64 bias=alibi dbias", "dbias"},
        BadProblem{"fwd bf16 s=64 d=64 splits=129", "splits=129"},
        BadProblem{"fwd bf16 s=64 d=64 tq=64", "tq=64"}));

class BadJson : public ::testing::TestWithParam<BadProblem> {};
TEST_P(BadJson, IsASentenceWithTheWord) {
  regard_problem* problem = nullptr;
  expect_refusal(regard_problem_from_json(GetParam().text.c_str(), &problem), REGARD_INVALID, GetParam().word,
                 GetParam().text);
  EXPECT_EQ(problem, nullptr);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, BadJson,
    ::testing::Values(BadProblem{"", "byte"},  //
                      BadProblem{"[1, 2]", "object"}, BadProblem{"{\"sq\": 64,}", "byte 11"},
                      BadProblem{"{\"sq\": 64, \"sq\": 64}", "\"sq\""},
                      BadProblem{"{\"sofcap\": 3}", "softcap"}, BadProblem{"{\"mask\": \"causl\"}", "causal"},
                      BadProblem{"{\"mask\": 3}", "\"mask\""}, BadProblem{"{\"d\": \"64\"}", "\"d\""},
                      BadProblem{"{\"d\": 64.5}", "64.5"}, BadProblem{"{\"lse\": 1}", "\"lse\""},
                      BadProblem{"{\"d\": 64, \"sq\": 64, \"sk\": 64, \"hq\": 3, \"hk\": 2}", "hq=3"},
                      BadProblem{"{\"d\": 64, \"sq\": -1, \"sk\": 64}", "sq=-1"},
                      BadProblem{"{\"d\": 64, \"sq\": 18446744073709551615}", "\"sq\""},
                      BadProblem{"{\"d\": 64, \"sq\": 4611686018427387904}", "sq=4611686018427387904"},
                      BadProblem{"{\"d\": 64, \"sq\": 64, \"sk\": 64, \"dropout\": 1}", "dropout=1"}));

// ---- options -------------------------------------------------------------------------------------------

TEST(BadOption, IsASentenceWithTheWord) {
  const Call call("fwd fp32 h=1 s=8 d=8");
  struct Row {
    const char *target, *family;
    std::int32_t threads;
    const char* word;
    regard_status status = REGARD_INVALID;
  };
  for (const Row& row :
       {Row{"cpu-avx3", nullptr, 0, "cpu-avx2"},  //        Row{"cpu-generic", "forwad", 0, "forward"},  //
        Row{"cpu-generic", "backward", 0, "backward", REGARD_REFUSED},
        Row{"cpu-generic", nullptr, -1, "threads=-1"},
        Row{"gfx942", "sm90_forward", 0, "gfx942", REGARD_REFUSED}}) {
    regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
    options.target = row.target;
    options.family = row.family;
    options.threads = row.threads;
    regard_plan* plan = nullptr;
    expect_refusal(regard_plan_create(call.problem, &options, &plan), row.status, row.word, row.word);
    EXPECT_EQ(plan, nullptr) << row.word;
    expect_refusal(regard_attention(call.problem, &options, &call.arguments), row.status, row.word, row.word);
  }
}

TEST(BadOption, AnUnknownProfileFormatOrVerbIsNamed) {
  const Call call("fwd fp32 h=1 s=8 d=8");
  char* text = nullptr;
  expect_refusal(regard_list(nullptr, "defualt", &text), REGARD_INVALID, "default", "profile");
  expect_refusal(regard_list("cpu-avx3", nullptr, &text), REGARD_INVALID, "cpu-avx2", "target");
  expect_refusal(regard_explain(call.problem, nullptr, "yaml", &text), REGARD_INVALID, "yaml", "format");
  expect_refusal(regard_prepare_kernel("sm_90b sm90_forward | fwd bf16 d=64", &text), REGARD_INVALID,
                 "sm_90a", "target");
  expect_refusal(regard_cache("lst", &text), REGARD_INVALID, "list", "verb");
  EXPECT_EQ(text, nullptr);
}

TEST(BadOption, OfABuildIsNamed) {
  struct Row {
    std::int32_t jobs, only;
    const char* word;
  };
  char* text = nullptr;
  for (const Row& row : {Row{-1, 0, "jobs=-1"}, Row{0, 3, "only=3"}, Row{0, -1, "only=-1"}}) {
    regard_build_options options = REGARD_BUILD_OPTIONS_INIT;
    options.jobs = row.jobs;
    options.only = row.only;
    expect_refusal(regard_build("te.toml", &options, &text), REGARD_INVALID, row.word, row.word);
  }
  regard_build_options options = REGARD_BUILD_OPTIONS_INIT;
  options.size = 8;
  expect_refusal(regard_build("te.toml", &options, &text), REGARD_INVALID, "regard_build_options.size is 8",
                 "a size that no version has");
  const regard::TemporaryFolder folder;
  expect_refusal(regard_build((folder.path() + "/te.toml").c_str(), nullptr, &text), REGARD_INVALID,
                 "No such file", "a file that is not there");
  EXPECT_EQ(text, nullptr);
}

TEST(BadPointer, IsNamedByItsParameter) {
  const Call call("fwd fp32 h=1 s=8 d=8");
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  regard_plan* made = nullptr;
  char* text = nullptr;
  ASSERT_EQ(regard_plan_create(call.problem, nullptr, &made), REGARD_OK) << regard_status_message();
  const auto expect = [](regard_status status, const char* parameter) {
    expect_refusal(status, REGARD_INVALID, std::string(parameter) + " is a null pointer", parameter);
  };
  expect(regard_problem_parse(nullptr, &problem), "text");
  expect(regard_problem_parse("fwd fp32 s=8 d=8", nullptr), "problem");
  expect(regard_problem_from_json(nullptr, &problem), "json");
  expect(regard_problem_from_json("{}", nullptr), "problem");
  expect(regard_problem_tensor(nullptr, REGARD_Q, nullptr, nullptr), "problem");
  expect(regard_problem_words(nullptr), "json");
  expect(regard_plan_create(nullptr, nullptr, &plan), "problem");
  expect(regard_plan_create(call.problem, nullptr, nullptr), "plan");
  expect(regard_plan_prepare(nullptr), "plan");
  expect(regard_plan_json(nullptr, &text), "plan");
  expect(regard_plan_json(made, nullptr), "json");
  expect(regard_plan_run(nullptr, &call.arguments, nullptr, 0, nullptr), "plan");
  expect(regard_plan_run(made, nullptr, nullptr, 0, nullptr), "arguments");
  expect(regard_explain(nullptr, nullptr, "text", &text), "problem");
  expect(regard_explain(call.problem, nullptr, "text", nullptr), "explanation");
  expect(regard_attention(nullptr, nullptr, &call.arguments), "problem");
  expect(regard_attention(call.problem, nullptr, nullptr), "arguments");
  expect(regard_check(call.problem, nullptr, &text), "arguments");
  expect(regard_check(call.problem, &call.arguments, nullptr), "report");
  expect(regard_rerun(nullptr, nullptr, 0, &text), "folder");
  expect(regard_rerun("saved", nullptr, 0, nullptr), "report");
  expect_refusal(regard_rerun("saved", nullptr, 2, &text), REGARD_INVALID, "oracle=2", "oracle");
  expect_refusal(regard_rerun("no folder", nullptr, 0, &text), REGARD_INVALID, "call.json", "no folder");
  expect(regard_info(nullptr), "json");
  expect(regard_list(nullptr, nullptr, nullptr), "json");
  expect(regard_cache("stat", nullptr), "json");
  expect(regard_prepare_kernel(nullptr, &text), "kernel");
  expect(regard_prepare_kernel("cpu-avx2 cpu_forward | fwd fp32 d=64", nullptr), "json");
  expect_refusal(regard_prepare_kernel("cpu-avx2 cpu_forward block_q=128 | fwd fp32 d=64", &text),
                 REGARD_INVALID,
                 "lacks block_k; a tile of cpu-avx2 has block_k=", "a kernel without block_k");
  expect(regard_build(nullptr, nullptr, &text), "manifest");
  expect(regard_build("te.toml", nullptr, nullptr), "json");
  expect(regard_package_folders(nullptr, 1), "folders");
  const char* const folders[] = {"/x", nullptr};
  expect(regard_package_folders(folders, 2), "folders[1]");
  EXPECT_EQ(regard_package_folders(nullptr, 0), REGARD_OK);
  regard_plan_destroy(made);
}

// An untrusted word is shown without any effect: it cannot break the line, control the terminal or change the
// direction of writing.
TEST(BadWord, IsShownAndDoesNothing) {
  const Call call("fwd fp32 h=1 s=8 d=8");
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  char* text = nullptr;
  const std::string word = "x\n\x1b[31m\u202e\xff", shown = "x\\n\\x1b[31m\\u202e\\xff";
  const auto expect_shown = [&](regard_status status, const char* input) {
    expect_refusal(status, REGARD_INVALID, shown, input);
  };
  regard_plan_options target = REGARD_PLAN_OPTIONS_INIT, family = REGARD_PLAN_OPTIONS_INIT;
  target.target = family.family = word.c_str();
  expect_shown(regard_plan_create(call.problem, &target, &plan), "target");
  expect_shown(regard_plan_create(call.problem, &family, &plan), "family");
  expect_shown(regard_explain(call.problem, nullptr, word.c_str(), &text), "format");
  expect_shown(regard_list(word.c_str(), nullptr, &text), "target of a list");
  expect_shown(regard_list("cpu-generic", word.c_str(), &text), "profile");
  expect_shown(regard_cache(word.c_str(), &text), "verb");
  expect_shown(regard_prepare_kernel(word.c_str(), &text), "kernel");
  expect_shown(regard_build(word.c_str(), nullptr, &text), "manifest");
  regard_build_options build = REGARD_BUILD_OPTIONS_INIT;
  build.text = "[biuld]\n";
  expect_shown(regard_build(word.c_str(), &build, &text), "manifest with a mistake");

  const std::string bare = "x\x1b[31m\u202e\xff";  // no line break, as it would split a problem's text
  for (const std::string start : {"", "mask=", "fwd fp32 s=8 d=8 bias=", "s="}) {
    expect_refusal(regard_problem_parse((start + bare).c_str(), &problem), REGARD_INVALID,
                   "x\\x1b[31m\\u202e\\xff", start);
  }
  for (const std::string json : {R"({"x\n\u001b[31m\u202e": 3})", R"({"mask": "x\n\u001b[31m\u202e"})"}) {
    expect_refusal(regard_problem_from_json(json.c_str(), &problem), REGARD_INVALID, "x\\n\\x1b[31m\\u202e",
                   json);
  }
}

// ---- tensors -------------------------------------------------------------------------------------------

constexpr const char* dense = "fwd bf16 b=2 hq=4 hk=2 sq=8 sk=16 d=16";
constexpr const char* varlen = "fwd fp32 varlen b=3 h=1 sq=8 sk=8 tq=20 tk=20 d=8";

struct BadTensor {
  std::string name;
  const char* text;
  std::function<void(Call&)> spoil;
  std::string word;
  friend void PrintTo(const BadTensor& bad, std::ostream* out) { *out << bad.name << ": " << bad.text; }
};

/// Correct offsets with one of them replaced.
void give_offsets(Call& call, regard_role role, int index, std::int32_t value) {
  for (const regard_role each : {REGARD_OFFSETS_Q, REGARD_OFFSETS_K}) {
    const std::int32_t right[] = {0, 4, 10, 18};
    std::copy(std::begin(right), std::end(right), call.integers(each));
  }
  call.integers(role)[index] = value;
}

class BadCall : public ::testing::TestWithParam<BadTensor> {};
TEST_P(BadCall, IsASentenceWithTheTensor) {
  Call call(GetParam().text);
  GetParam().spoil(call);
  expect_refusal(regard_attention(call.problem, nullptr, &call.arguments), REGARD_INVALID, GetParam().word,
                 GetParam().name);
  char* report = nullptr;
  expect_refusal(regard_check(call.problem, &call.arguments, &report), REGARD_INVALID, GetParam().word,
                 GetParam().name);
  EXPECT_EQ(report, nullptr);
}

const BadTensor bad_tensors[] = {
    {"AnotherTypeThanQ", dense, [](Call& c) { c[REGARD_K].dtype = REGARD_FP16; }, "'k' is fp16"},
    {"AnotherTypeThanTheProblem", dense, [](Call& c) { c[REGARD_O].dtype = REGARD_FP32; }, "'o' is fp32"},
    {"HeadDimsOfQAndKDiffer", dense, [](Call& c) { c[REGARD_K].shape[3] = 8; },
     "'k' has shape [2, 16, 2, 8]"},
    {"HeadsOfKAndVDiffer", dense, [](Call& c) { c[REGARD_V].shape[2] = 4; }, "'v' has shape"},
    {"RankOfAnotherTensor", dense, [](Call& c) { c[REGARD_Q].rank = 3; }, "'q' has rank 3"},
    {"LastDimensionNotContiguous", dense, [](Call& c) { c[REGARD_K].strides[3] = 2; }, "'k' has strides"},
    {"NegativeSize", dense, [](Call& c) { c[REGARD_Q].shape[1] = -8; }, "'q' has shape [2, -8"},
    {"NegativeStride", dense, [](Call& c) { c[REGARD_V].strides[0] = -512; }, "'v' has strides [-512"},
    {"StridePastTheEnd", dense, [](Call& c) { c[REGARD_Q].strides[0] = INT64_MAX; }, "2^63"},
    {"OutputThatOverlaps", dense, [](Call& c) { c[REGARD_O].strides[2] = 0; }, "'o' has strides"},
    {"Missing", dense, [](Call& c) { c[REGARD_V].data = nullptr; }, "'v' is missing"},
    {"GivenForNothing", dense, [](Call& c) { c[REGARD_BIAS] = c[REGARD_Q]; }, "'bias'"},
    {"Misaligned", dense, [](Call& c) { c[REGARD_Q].data = static_cast<char*>(c[REGARD_Q].data) + 1; },
     "'q' does not start"},
    {"OffsetsThatDecrease", varlen, [](Call& c) { give_offsets(c, REGARD_OFFSETS_Q, 2, 3); },
     "offsets_q[2] is 3"},
    {"OffsetsThatStartLate", varlen, [](Call& c) { give_offsets(c, REGARD_OFFSETS_K, 0, 1); },
     "offsets_k[0] is 1"},
    {"OffsetsPastTheTokens", varlen, [](Call& c) { give_offsets(c, REGARD_OFFSETS_K, 3, 21); },
     "offsets_k[3] is 21"},
    {"SequenceAboveTheLongest", varlen, [](Call& c) { give_offsets(c, REGARD_OFFSETS_Q, 3, 19); }, "sq=8"},
    {"OffsetsOfAnotherType", varlen, [](Call& c) { c[REGARD_OFFSETS_Q].dtype = REGARD_UINT32; },
     "'offsets_q' is uint32"},
};
INSTANTIATE_TEST_SUITE_P(Rows, BadCall, ::testing::ValuesIn(bad_tensors),
                         [](const auto& row) { return row.param.name; });

/// Each tensor that a problem needs is left without memory in turn, in a call, in a plan's run and in a
/// check.
TEST(WithoutMemory, EveryTensorIsNamed) {
  for (const char* text :
       {"fwd fp32 b=2 hq=4 hk=2 sq=8 sk=12 d=16 bias=b1 bits ranges sink lse dropout=0.5 dropout_mask",
        "bwd fp32 b=2 hq=4 hk=2 sq=8 sk=12 d=16 bias=b1 dbias sink dropout=0.5",
        "fwd fp32 varlen b=3 h=1 sq=8 sk=8 tq=20 tk=20 d=8 bias=alibi_b",
        "fwd fp8 h=2 s=8 d=16 descale=head"}) {
    Call call(text);
    regard_plan* plan = nullptr;
    ASSERT_EQ(regard_plan_create(call.problem, nullptr, &plan), REGARD_OK) << regard_status_message();
    const std::int64_t bytes = regard_plan_workspace_bytes(plan);
    void* workspace = nullptr;
    ASSERT_EQ(regard_memory_allocate(nullptr, bytes, &workspace), REGARD_OK);
    int named = 0;
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      const auto role = static_cast<regard_role>(i);
      void* const right = call[role].data;
      if (right == nullptr) continue;
      call[role].data = nullptr;
      const std::string word = std::string("'") + regard_role_name(role) + "' is missing (null)";
      char* report = nullptr;
      expect_refusal(regard_attention(call.problem, nullptr, &call.arguments), REGARD_INVALID, word, text);
      expect_refusal(regard_plan_run(plan, &call.arguments, workspace, bytes, nullptr), REGARD_INVALID, word,
                     text);
      expect_refusal(regard_check(call.problem, &call.arguments, &report), REGARD_INVALID, word, text);
      call[role].data = right;
      ++named;
    }
    EXPECT_GE(named, 4);
    EXPECT_EQ(regard_memory_free(workspace), REGARD_OK);
    regard_plan_destroy(plan);
  }
}

}  // namespace
