#include "base/settings.h"

#include <gmock/gmock.h>

#include "generated_docs.h"

namespace regard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Parsed {
  Result<Settings> settings;
  std::vector<std::string> warnings;
};

Parsed parsed(const std::vector<std::string>& environment) {
  Parsed result;
  result.settings = parse_settings(environment, result.warnings);
  return result;
}

TEST(Settings, SwitchesAreStrict) {
  for (const char* yes : {"1", "on", "true", "yes", "ON", "True"}) {
    EXPECT_TRUE(parsed({"REGARD_STRICT=" + std::string(yes)}).settings->strict) << yes;
  }
  for (const char* no : {"0", "off", "false", "no", "OFF"}) {
    EXPECT_FALSE(parsed({"REGARD_JIT=" + std::string(no)}).settings->jit) << no;
  }
  for (const char* neither : {"2", "maybe", "y", " on"}) {
    const Parsed result = parsed({"REGARD_JIT=" + std::string(neither)});
    ASSERT_FALSE(result.settings) << neither;
    EXPECT_EQ(result.settings.error().message, "REGARD_JIT='" + std::string(neither) +
                                                   "' is not understood; use 1, on, true or yes, or 0, off, "
                                                   "false or no");
  }
}

TEST(Settings, NumbersAreWholeAndNotNegative) {
  EXPECT_EQ(parsed({"REGARD_THREADS=12"}).settings->threads, 12);
  for (const char* bad :
       {"-1", "1.5", "1e3", "many", "0x10", "99999999999999999999x", "-99999999999999999999"}) {
    const Parsed result = parsed({"REGARD_THREADS=" + std::string(bad)});
    ASSERT_FALSE(result.settings) << bad;
    EXPECT_THAT(result.settings.error().message,
                HasSubstr("REGARD_THREADS='" + std::string(bad) + "' is not a whole number"));
  }
  EXPECT_EQ(parsed({"REGARD_THREADS=99999999999999999999"}).settings.error().message,
            "REGARD_THREADS='99999999999999999999' is too large; the largest number is 9223372036854775807");
}

TEST(Settings, TextIsTakenAsItIs) {
  EXPECT_EQ(parsed({"REGARD_CACHE_DIR=/a b/c=d"}).settings->cache_dir, "/a b/c=d");
}

TEST(Settings, LogTopicsAreStrict) {
  for (const char* good : {"plan", "compile", "cache", "launch", "all", "plan,cache", "plan,"}) {
    EXPECT_TRUE(parsed({"REGARD_LOG=" + std::string(good)}).settings) << good;
  }
  const Parsed result = parsed({"REGARD_LOG=cache,lanch"});
  ASSERT_FALSE(result.settings);
  EXPECT_EQ(result.settings.error().message,
            "REGARD_LOG has the unknown topic 'lanch'; did you mean 'launch'?");
}

TEST(Settings, AnEmptyValueIsTheDefault) {
  const Parsed result = parsed({"REGARD_JIT=", "REGARD_THREADS="});
  EXPECT_TRUE(result.settings->jit);
  EXPECT_EQ(result.settings->threads, 0);
}

TEST(Settings, AnEmptyListOfTrustedKeysIsNoDefault) {
  EXPECT_EQ(
      parsed({"REGARD_TRUSTED_KEYS="}).settings.error().message,
      "REGARD_TRUSTED_KEYS is empty, and without keys everything is trusted; name the keys, or unset it");
}

TEST(Settings, ABlankValueIsNone) {
  for (const SettingInfo& row : setting_table()) {
    for (const char* const blank : {" ", "\t", " \n "}) {
      const Parsed result = parsed({std::string(row.name) + "=" + blank});
      ASSERT_FALSE(result.settings) << row.name;
      EXPECT_THAT(result.settings.error().message,
                  testing::AllOf(testing::StartsWith(std::string(row.name) + "='"),
                                 testing::EndsWith("' is blank; give it a value, or unset it")));
    }
  }
}

TEST(Settings, AListHasSomethingInIt) {
  for (const SettingInfo& row : setting_table()) {
    if (row.type != "List" && row.type != "Paths") continue;
    const char separator = row.type == "List" ? ',' : ':';
    for (const std::size_t count : {1, 3}) {
      const Parsed result = parsed({std::string(row.name) + "=" + std::string(count, separator)});
      ASSERT_FALSE(result.settings) << row.name;
      EXPECT_THAT(result.settings.error().message, HasSubstr("names nothing; name something, or unset it"));
    }
  }
  EXPECT_THAT(parsed({"REGARD_DISABLE=,a,,b,"}).settings->disable.items(), ElementsAre("a", "b"));
  EXPECT_THAT(parsed({"REGARD_BUNDLE_PATH=:a,b:"}).settings->bundle_path.items(), ElementsAre("a,b"));
}

TEST(Settings, SavedCallsHaveAFolderAConditionAndBounds) {
  const Settings all = *parsed({"REGARD_SAVE_CALLS=/a folder,when=first:3,calls=7,bytes=9"}).settings;
  EXPECT_EQ(all.save_calls.folder, "/a folder");
  EXPECT_EQ(word(all.save_calls.when), "first");
  EXPECT_EQ(all.save_calls.number, 3);
  EXPECT_EQ(all.save_calls.calls, 7);
  EXPECT_EQ(all.save_calls.bytes, 9);
  EXPECT_TRUE(parsed({"REGARD_SAVE_CALLS="}).settings->save_calls.empty());
  EXPECT_EQ(word(parsed({"REGARD_SAVE_CALLS=f"}).settings->save_calls.when), "every");
}

TEST(Settings, SavedCallsThatAreNotUnderstoodAreAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {",when=nan", " names no folder; put it first, as in FOLDER,when=nan"},
      {"f,when=nam", " has the unknown when='nam'; did you mean 'nan'?"},
      {"f,when=nan:2", ": when=nan takes no number"},
      {"f,when=first", ": when=first needs a number, such as first:10"},
      {"f,when=every:0", " has '0' for when=every; it takes a whole number of 1 or more"},
      {"f,calls=many", " has 'many' for calls; it takes a whole number of 1 or more"},
      {"f,call=1", " has the unknown option 'call'; did you mean 'calls'?"},
  };
  for (const auto& [value, why] : cases) {
    const Parsed result = parsed({std::string("REGARD_SAVE_CALLS=") + value});
    ASSERT_FALSE(result.settings) << value;
    EXPECT_EQ(result.settings.error().message, std::string("REGARD_SAVE_CALLS='") + value + "'" + why);
  }
}

TEST(Settings, ValuesAreShownWithoutPasswords) {
  const Settings parsed_settings = *parsed({"REGARD_REMOTE=http://u:secret@h/x"}).settings;
  EXPECT_EQ(parsed_settings.remote.text, "http://u:secret@h/x");
  EXPECT_THAT(setting_values(parsed_settings), testing::Contains("http://***@h/x"));
}

TEST(Settings, SourcesFromAFolderLeaveTheBuiltInKernels) {
  EXPECT_FALSE(parsed({"REGARD_DATA_DIR=."}).settings->built_in);
  EXPECT_TRUE(parsed({"REGARD_DATA_DIR="}).settings->built_in);
}

TEST(Settings, UnknownNamesAreReportedWithTheNearest) {
  const Parsed result = parsed({"REGARD_THREAD=4", "HOME=/root", "MY_REGARD_JIT=x"});
  ASSERT_TRUE(result.settings);
  EXPECT_THAT(result.warnings, ElementsAre("unknown setting REGARD_THREAD; did you mean 'REGARD_THREADS'?"));
  EXPECT_THAT(parsed({"REGARD_JIT=on"}).warnings, IsEmpty());
}

TEST(Settings, TableAndValuesAreInTheSameOrder) {
  Settings changed;
  changed.threads = 7;
  const std::vector<std::string> values = setting_values(changed);
  ASSERT_EQ(values.size(), setting_table().size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SettingInfo& row = setting_table()[i];
    EXPECT_EQ(values[i], row.name == "REGARD_THREADS" ? "7" : row.default_text) << row.name;
    EXPECT_FALSE(row.doc.empty()) << row.name;
  }
}

TEST(Settings, EverySettingCanBeGiven) {
  for (const SettingInfo& row : setting_table()) {
    const std::string other_switch = row.default_text == "on" ? "off" : "on";
    const std::string value = row.type == "Switch" ? other_switch : row.name == "REGARD_LOG" ? "all" : "7";
    const Parsed result = parsed({std::string(row.name) + "=" + value});
    ASSERT_TRUE(result.settings) << row.name;
    EXPECT_THAT(setting_values(*result.settings), testing::Contains(value)) << row.name;
    EXPECT_NE(setting_values(*result.settings), setting_values(Settings{})) << row.name;
  }
}

TEST(Settings, DocsAreTheTable) {
  expect_generated_docs("settings.md", settings_markdown());
}

}  // namespace
}  // namespace regard
