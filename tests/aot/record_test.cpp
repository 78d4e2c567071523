// The contents of a record, and texts that are not one.
#include "aot/record.h"

#include <gmock/gmock.h>

#include "support/temporary_folder.h"

namespace regard::aot {
namespace {

using testing::HasSubstr;

TEST(Record, HasEachProblemOfATargetOnce) {
  const Result<Record> record = parse_record(
      "# of yesterday\n"
      "cpu-avx2 | fwd bf16 b=1 h=2 s=64 d=64\n"
      "\n"
      "cpu-avx2 | fwd bf16 s=64 b=1 d=64 h=2\n"
      "cpu-avx512 | fwd bf16 b=1 h=2 s=64 d=64\r\n"
      "sm_90a | fwd bf16 b=1 hq=2 hk=2 sq=1 sk=64 d=64\n"
      "# of today",
      "seen.txt");
  ASSERT_TRUE(record) << record.error().message;
  std::vector<std::pair<std::string, int>> lines;
  for (const Record::Line& line : record->lines) lines.emplace_back(line.target->name, line.number);
  EXPECT_THAT(lines, testing::ElementsAre(std::pair("cpu-avx2", 2), std::pair("cpu-avx512", 5),
                                          std::pair("sm_90a", 6)));
  EXPECT_THAT(record->left_out, testing::IsEmpty());
}

TEST(Record, ABadLineIsAnErrorWithItsNumber) {
  struct Case {
    std::string_view text, message;
  };
  const Case cases[] = {
      {"\ncpu-avx2 fwd bf16 s=64 d=64\n",
       "seen.txt:2: 'cpu-avx2 fwd bf16 s=64 d=64' is not a line that REGARD_RECORD writes, such as"},
      {"cpu-avx3 | fwd bf16 s=64 d=64\n", "seen.txt:1: unknown target 'cpu-avx3'; did you mean 'cpu-avx2'?"},
      {"cpu-avx2 | fwd bf16 s=64 d=64 msk=causal\n", "seen.txt:1: unknown word 'msk=causal'"},
      {"cpu-avx2 | fwd bf16 s=64\n", "seen.txt:1: d is missing"},
      {"cpu-avx2 | \n", "seen.txt:1: the text is empty"},
      {"cpu-avx2 | fwd bf1\ncpu-avx2 | fwd bf16 s=64 d=64\n", "seen.txt:1: unknown word 'bf1'"},
      {" # a comment stands at the beginning of its line\n", "seen.txt:1: "},
      {std::string_view("\0\n", 2), "seen.txt:1: '\\x00' is not a line that REGARD_RECORD writes"},
  };
  for (const Case& c : cases) {
    const Result<Record> record = parse_record(c.text, "seen.txt");
    ASSERT_FALSE(record) << c.text;
    EXPECT_THAT(record.error().message, HasSubstr(c.message));
  }
}

TEST(Record, ALineThatIsNotWholeIsSkippedAndReported) {
  const std::string whole = "cpu-avx2 | fwd bf16 s=64 d=64\n";
  for (const std::string cut : {"cpu-avx2 | fwd bf1", "cpu-avx2 | fwd bf16 s=64 d=4", "cpu"}) {
    for (const std::string& text :
         {whole + cut, whole + cut + " #cut\n", whole + cut + " #cut\n #cut\n" + whole}) {
      const Result<Record> record = parse_record(text, "seen.txt");
      ASSERT_TRUE(record) << record.error().message;
      EXPECT_EQ(record->lines.size(), 1u);
      EXPECT_THAT(record->left_out, testing::ElementsAre(HasSubstr("seen.txt:2: the line '" + cut +
                                                                   "' is left out, as it is not whole")));
    }
  }
}

TEST(Record, ThatCannotBeReadSaysWhy) {
  const TemporaryFolder folder;
  const std::string none = folder.path() + "/none";
  const Result<Record> record = read_record(none);
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().message,
            "the record '" + none + "' cannot be read: it cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace regard::aot
