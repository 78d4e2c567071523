// A caller's own choice, and tuning records, through regard.hpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "regard/regard.hpp"
#include "support/temporary_folder.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr const char* decode = "fwd fp32 b=1 hq=4 hk=1 sq=1 sk=300 d=64";
const regard::Options on_generic{.target = "cpu-generic", .threads = 1};

Json explained(const char* text = decode, const regard::Options& options = on_generic) {
  return Json::parse(regard::explain(regard::Problem(text), options, "json"));
}

std::string chosen(const Json& explanation) {
  for (const Json& verdict : explanation["verdicts"])
    if (verdict["chosen"]) return verdict["candidate"];
  return "";
}

std::vector<regard::Candidate> accepted() {
  std::vector<regard::Candidate> found;
  const Json explanation = explained();
  for (const Json& verdict : explanation["verdicts"])
    if (verdict["accepted"]) found.push_back({verdict["candidate"], verdict["seconds"]});
  return found;
}

/// A candidate that the cost model does not choose.
std::string other() {
  const std::string by_cost = explained()["by_cost"];
  for (const regard::Candidate& one : accepted())
    if (one.name != by_cost) return one.name;
  return "";
}

class Choice : public ::testing::Test {
 protected:
  void TearDown() override {
    regard::choose_by(nullptr);
    regard::use_tuning("");
  }
  const regard::TemporaryFolder folder;

  std::string file(const std::string& text) const {
    const std::string path = folder.path() + "/records.tuning";
    std::ofstream(path) << text;
    return path;
  }
  /// Times for which `other` is the best.
  static std::string record(const char* text = decode) {
    return regard::tuning_record(regard::Problem(text), on_generic,
                                 {{other(), 1e-3}, {explained()["by_cost"].get<std::string>(), 2e-3}}) +
           "\n";
  }
};

TEST_F(Choice, OfTheCallerIsUsedForNewPlans) {
  const regard::Problem problem(decode);
  const std::string name = other();
  const auto kernels = [&] { return Json::parse(regard::Plan(problem, on_generic).json())["stages"]; };
  const Json before = kernels();
  std::string asked;
  regard::choose_by([&](const regard::Problem& given, const std::string& target,
                        const std::vector<regard::Candidate>& candidates) {
    asked = given.text() + " " + target + " " + std::to_string(candidates.size());
    return name;
  });
  const Json after = kernels();  // although the problem was planned before
  EXPECT_NE(before, after);
  EXPECT_EQ(asked, problem.text() + " cpu-generic " + std::to_string(accepted().size()));
  EXPECT_EQ(chosen(explained()), name);
  EXPECT_EQ(explained()["chosen_by"], "caller");
  regard::choose_by(nullptr);
  EXPECT_EQ(kernels(), before);
}

TEST_F(Choice, ThatFailsRefusesThePlan) {
  regard::choose_by([](const auto&, const auto&, const auto&) -> std::string { throw 3; });
  try {
    const regard::Plan plan(regard::Problem("fwd fp32 b=1 hq=4 hk=1 sq=1 sk=301 d=64"), on_generic);
    ADD_FAILURE();
  } catch (const regard::error& error) {
    EXPECT_EQ(error.status(), REGARD_REFUSED);
    EXPECT_THAT(error.what(), HasSubstr("own choice of kernels failed"));
  }
}

TEST_F(Choice, IsNotAskedWhereAFamilyIsNamed) {
  regard::choose_by([](const auto&, const auto&, const auto&) -> std::string { throw 3; });
  const Json explanation = explained(decode, {.target = "cpu-generic", .family = "generic", .threads = 1});
  EXPECT_EQ(explanation["chosen_by"], "cost");
}

TEST_F(Choice, ByARecordOfTheNearestLength) {
  regard::use_tuning(file(record()));
  EXPECT_EQ(chosen(explained()), other());
  const Json near = explained("fwd fp32 b=1 hq=4 hk=1 sq=1 sk=900 d=64");
  EXPECT_EQ(near["chosen_by"], "record");
  EXPECT_THAT(near["record"].get<std::string>(),
              HasSubstr(std::string("the tuning record of 'fwd fp32 b=1 hq=4")));
  EXPECT_THAT(regard::explain(regard::Problem(decode), on_generic),
              HasSubstr("chosen by the tuning record of"));
  const Json far = explained("fwd fp32 b=1 hq=4 hk=1 sq=1 sk=9000 d=64");
  EXPECT_EQ(far["chosen_by"], "cost");
  regard::use_tuning("");
  EXPECT_EQ(explained()["chosen_by"], "cost");
}

TEST_F(Choice, ByARecordCountsOnItsDeviceWithItsKernels) {
  struct Case {
    const char *member, *note;
    Json value;
  };
  const Case cases[] = {
      {"device", "it is for another chip, and this is", "another chip"},
      {"threads", "it is for 64 threads, and this plan has 1", 64},
      {"kernels",
       "has changed since Regard",
       {{"cpu-generic cpu_generic_forward | any fwd", std::string(64, '0')}}},
  };
  for (const Case& c : cases) {
    Json line = Json::parse(record());
    line[c.member] = c.value;
    regard::use_tuning(file(line.dump()));
    const Json explanation = explained();
    EXPECT_EQ(explanation["chosen_by"], "cost") << c.member;
    ASSERT_EQ(explanation["notes"].size(), 1u) << c.member;
    EXPECT_THAT(explanation["notes"][0].get<std::string>(), HasSubstr(c.note));
  }
}

TEST_F(Choice, AFileThatIsNoneIsRefusedAndTheEarlierOneStays) {
  regard::use_tuning(file(record()));
  for (const std::string& path : {folder.path() + "/none", std::string(REGARD_SOURCE_DIR) + "/README.md"}) {
    EXPECT_EQ(regard_use_tuning(path.c_str()), REGARD_INVALID) << path;
    EXPECT_THAT(regard_status_message(), HasSubstr(path));
  }
  EXPECT_EQ(explained()["chosen_by"], "record");
}

TEST_F(Choice, ARecordNeedsMeasurements) {
  const regard::Problem problem(decode);
  const regard_plan_options options = on_generic.c();
  const char* names[] = {"cpu_generic_forward", nullptr};
  const double seconds[] = {1e-3, 0};
  char* text = nullptr;
  const auto make = [&](const char* const* all, const double* times, std::int64_t count) {
    return regard_tuning_record(problem.get(), &options, all, times, count, &text);
  };
  EXPECT_EQ(make(names, seconds, 0), REGARD_INVALID);
  EXPECT_EQ(make(nullptr, seconds, 1), REGARD_INVALID);
  EXPECT_EQ(make(names, nullptr, 1), REGARD_INVALID);
  EXPECT_EQ(make(names, seconds, 2), REGARD_INVALID);
  EXPECT_THAT(regard_status_message(), HasSubstr("candidates[1]"));
  EXPECT_EQ(make(names, seconds + 1, 1), REGARD_INVALID);
  EXPECT_THAT(regard_status_message(), HasSubstr("seconds[0] is 0"));
  const char* unknown[] = {"cpu_froward"};
  EXPECT_EQ(make(unknown, seconds, 1), REGARD_INVALID);
  EXPECT_THAT(regard_status_message(), HasSubstr("cpu_froward"));
  EXPECT_EQ(text, nullptr);
}

}  // namespace
