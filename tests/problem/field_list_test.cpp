// A field that is missing from one of the things derived from the list fails here.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "generated_docs.h"
#include "problem/document.h"
#include "random_problem.h"

namespace regard {
namespace {

using ::testing::HasSubstr;

/// Calls check(field, changed) with a record in which that one field differs from its default.
template <class Record, class Check>
void with_each_field_changed(Check&& check) {
  std::mt19937_64 random(3);
  const Record defaults;
  for_each_field(defaults, [&](Field changed_field, const auto&) {
    Record changed;
    for_each_field(changed, [&](Field field, auto& value) {
      if (field != changed_field) return;
      const auto before = value;
      while (value == before) randomize(random, value);
    });
    check(info(changed_field).name, changed);
  });
}

TEST(FieldList, EveryFieldIsInEqualityTextJsonAndHash) {
  const Problem defaults;
  int fields = 0;
  with_each_field_changed<Problem>([&](std::string_view name, const Problem& changed) {
    ++fields;
    EXPECT_NE(changed, defaults) << name;
    EXPECT_NE(print(changed), print(defaults)) << name;
    EXPECT_NE(hash(changed), hash(defaults)) << name;
    EXPECT_NE(to_json(changed), to_json(defaults)) << name;
    EXPECT_THAT(to_json(defaults), HasSubstr("\"" + std::string(name) + "\":"));
  });
  EXPECT_EQ(fields, static_cast<int>(Field::count));
}

TEST(FieldList, EverySignatureFieldIsInEqualityTextAndHash) {
  const Signature defaults;
  with_each_field_changed<Signature>([&](std::string_view name, const Signature& changed) {
    EXPECT_NE(changed, defaults) << name;
    EXPECT_NE(print(changed), print(defaults)) << name;
    EXPECT_NE(hash(changed), hash(defaults)) << name;
  });
}

TEST(FieldList, ASignatureChangesWithSignatureAndPresenceFieldsOnly) {
  const Problem defaults;
  with_each_field_changed<Problem>([&](std::string_view name, const Problem& changed) {
    for (const FieldInfo& row : field_table()) {
      if (row.name != name) continue;
      EXPECT_EQ(signature(changed) == signature(defaults), row.category == Category::SHAPE) << name;
    }
  });
}

TEST(FieldList, EqualProblemsHashAndPrintTheSame) {
  Problem positive, negative;
  positive.softcap = 0.0;
  negative.softcap = -0.0;
  positive.scale = 0.0;
  negative.scale = -0.0;
  ASSERT_EQ(positive, negative);
  EXPECT_EQ(hash(positive), hash(negative));
  EXPECT_EQ(print(positive), print(negative));
}

TEST(FieldList, WordsOfEnumerationsReadBack) {
  const auto check = [](auto kind) {
    using Enum = decltype(kind);
    for (const WordInfo& row : words_of<Enum>()) {
      const std::optional<Enum> value = from_word<Enum>(row.word);
      ASSERT_TRUE(value) << row.word;
      EXPECT_EQ(word(*value), row.word);
      EXPECT_FALSE(row.doc.empty()) << row.word;
    }
  };
  check(Pass{}), check(DType{}), check(Mask{}), check(Bias{}), check(Descale{}), check(SlotType{});
  check(Positions{}), check(PageTable{}), check(KvLayout{}), check(Rope{}), check(Layout{});
}

TEST(FieldList, HelpHasEveryField) {
  const std::vector<WordHelp> help = word_help();
  for (std::size_t i = 0; i < field_table().size(); ++i) {
    EXPECT_EQ(help[i].doc, field_table()[i].doc);
    if (help[i].word.find('|') == std::string::npos) {
      EXPECT_THAT(word_help_markdown(), HasSubstr("| `" + help[i].word + "` |"));
    }
  }
  const nlohmann::json json = nlohmann::json::parse(word_help_json());
  EXPECT_EQ(json.size(), static_cast<std::size_t>(Field::count) + composite_table().size());
  EXPECT_EQ(json[2]["word"], "kv=fp32|bf16|fp16|fp8|fp8_e5m2|int8|fp8_fnuz|fp8_e5m2_fnuz");
}

TEST(FieldList, DocsProblemIsTheHelp) {
  expect_generated_docs("problem.md", word_help_markdown());
}

}  // namespace
}  // namespace regard
