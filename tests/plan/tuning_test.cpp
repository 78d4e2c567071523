// Tuning records: their text, and which one says something about a problem.
#include "plan/tuning.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "generated_docs.h"

namespace regard {
namespace {

using testing::HasSubstr;

TuningRecord record_of(const std::string& problem, const std::string& candidate = "cpu_forward block_q=64") {
  return {.tuning = tuning_format,
          .problem = problem,
          .target = "cpu-avx2",
          .device = "Some \"CPU\"",
          .threads = 2,
          .candidate = candidate,
          .by_cost = "cpu_forward block_q=32",
          .times = {{candidate, 0.25}, {"cpu_forward block_q=32", 0.5}},
          .kernels = {{"cpu-avx2 cpu_forward block_q=64 | fwd bf16 d=64", std::string(64, 'a')}},
          .version = "0.1.0",
          .date = "2026-11-30"};
}

std::vector<TunedProblem> records_of(const std::vector<TuningRecord>& records) {
  std::string text;
  for (const TuningRecord& one : records) text += print(one) + "\n\n";
  Result<std::vector<TunedProblem>> read = parse_tuning(text, "records");
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

std::string error_of(const std::string& text) {
  const auto read = parse_tuning(text, "here.tuning");
  return read ? "" : read.error().message;
}

/// The line with one text in place of another.
std::string with(const std::string& from, const std::string& to) {
  std::string line = print(record_of("fwd bf16 b=1 h=4 s=64 d=64"));
  const std::size_t at = line.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return line.replace(at, from.size(), to);
}

TEST(Tuning, ARecordReadsBack) {
  const TuningRecord record = record_of("fwd bf16 b=1 h=4 s=64 d=64 mask=causal");
  const std::vector<TunedProblem> read = records_of({record, record});
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].record, record);
  EXPECT_EQ(print(read[1].record).find('\n'), std::string::npos);
}

TEST(Tuning, WhatIsNoRecordIsNamedWithItsLine) {
  EXPECT_EQ(error_of(""), "");
  const std::string good = print(record_of("fwd bf16 b=1 h=4 s=64 d=64"));
  EXPECT_THAT(error_of(good + "\nhello\n"), HasSubstr("here.tuning:2: not a tuning record"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("it is not a JSON object"));
  EXPECT_THAT(error_of(with("\"candidate\"", "\"canditate\"")), HasSubstr("did you mean 'candidate'"));
  EXPECT_THAT(error_of(with("\"threads\":2,", "")), HasSubstr("it lacks threads"));
  EXPECT_THAT(error_of(with("\"threads\":2,", "\"threads\":2,\"threads\":2,")), HasSubstr("threads"));
  EXPECT_THAT(error_of(with("\"threads\":2", "\"threads\":\"2\"")),
              HasSubstr("threads is not a whole number"));
  EXPECT_THAT(error_of(with("0.25", "-1")), HasSubstr("not a positive number"));
  EXPECT_THAT(error_of(with("\"times\":{", "\"times\":3,\"kernels\":{")),
              HasSubstr("times is not an object"));
  EXPECT_THAT(error_of(with("\"tuning\":1", "\"tuning\":2")),
              HasSubstr("its format is 2, and this version of Regard reads 1"));
  EXPECT_THAT(error_of(with("h=4 s=64", "h=4 s=-64")), HasSubstr("sq"));
  EXPECT_THAT(error_of(with("\"threads\":2", "\"threads\":-1")),
              HasSubstr("threads is -1; it is at least 1 on a CPU, and 0 on a GPU"));
  for (const char* day : {"yesterday", "2026-1-30", "2026-13-01", "2026-02-30", "2026-11-30 "})
    EXPECT_THAT(error_of(with("2026-11-30", day)),
                HasSubstr(std::string("date is '") + day + "'; it is a day such as 2026-11-30"));
}

TEST(Tuning, ABucketLeavesOutWhatChangesNoChoice) {
  const auto bucket = [](const char* text) { return print(bucket_of(*parse(text))); };
  EXPECT_EQ(bucket("fwd bf16 b=3 h=12 sq=100 sk=1025 d=64"), "fwd bf16 b=4 h=12 sq=128 sk=2048 d=64");
  EXPECT_EQ(bucket("fwd bf16 b=3 h=12 sq=100 sk=1025 d=64 scale=0.3 layout=bhsd softcap=30"),
            bucket("fwd bf16 b=4 h=12 sq=128 sk=2048 d=64 softcap=20"));
  EXPECT_EQ(bucket("fwd bf16 varlen b=3 h=2 s=100 tq=200 tk=200 d=64"),
            bucket("fwd bf16 varlen b=4 h=2 s=127 tq=300 tk=201 d=64"));
  EXPECT_NE(bucket("fwd bf16 b=1 h=2 s=64 d=64"), bucket("fwd bf16 b=1 h=2 s=64 d=64 lse"));
  EXPECT_NE(bucket("fwd bf16 b=1 hq=4 hk=2 s=64 d=64"), bucket("fwd bf16 b=1 hq=4 hk=4 s=64 d=64"));
  EXPECT_NE(bucket("fwd bf16 b=1 h=2 s=64 d=64 mask=window:8,0"),
            bucket("fwd bf16 b=1 h=2 s=64 d=64 mask=window:4,0"));
}

TEST(Tuning, TheNearestBucketAnswers) {
  const auto problem = [](int b, int sq, int sk) {
    return fmt::format("fwd bf16 b={} hq=32 hk=8 sq={} sk={} d=128", b, sq, sk);
  };
  const std::vector<TunedProblem> records =
      records_of({record_of(problem(1, 1, 1024), "a"), record_of(problem(1, 1, 8192), "b"),
                  record_of(problem(4, 1, 8192), "c"), record_of(problem(1, 1, 8000), "d"),
                  record_of(problem(1, 64, 8192), "e")});
  const auto nearest = [&](int b, int sq, int sk, const char* target = "cpu-avx2") {
    std::string names;
    for (const TunedProblem* one : nearest_records(records, *parse(problem(b, sq, sk)), target))
      names += one->record.candidate;
    return names;
  };
  EXPECT_EQ(nearest(1, 1, 1024), "a");
  EXPECT_EQ(nearest(1, 1, 2048), "adbc");
  EXPECT_EQ(nearest(1, 1, 5000), "dbc");  // of one bucket the later one comes first
  EXPECT_EQ(nearest(2, 1, 8192), "dcb");
  EXPECT_EQ(nearest(1, 128, 8192), "e");
  EXPECT_EQ(nearest(1, 512, 8192), "");  // a factor of eight is too far
  EXPECT_EQ(nearest(1, 1, 8192, "cpu-avx512"), "");
  EXPECT_TRUE(
      nearest_records(records, *parse("fwd fp16 b=1 hq=32 hk=8 sq=1 sk=8192 d=128"), "cpu-avx2").empty());
}

TEST(Tuning, TheMembersAreInThePage) {
  expect_generated_docs("tuning.md", tuning_markdown());
}

}  // namespace
}  // namespace regard
