#include <gmock/gmock.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace regard {
namespace {

using testing::HasSubstr;

template <class Value>
std::string written(const Value& value) {
  JsonWriter json;
  json.value(value);
  return json.take();
}

TEST(JsonWriter, EscapesAsOthersRead) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  for (const std::string& text : {all, std::string("é €𝄞"), std::string()}) {
    EXPECT_EQ(written(text), nlohmann::json(text).dump());
    EXPECT_EQ(nlohmann::json::parse(written(text)).get<std::string>(), text);
  }
}

TEST(JsonWriter, WhatIsNoUtf8HasAReplacementInItsPlace) {
  const auto replaced = nlohmann::json::error_handler_t::replace;
  for (const char* text : {"a\xff", "\xc3", "\xe2\x82", "\xe2\x82x", "\xed\xa0\x80", "\xf0\x9d\x84",
                           "\xf5\x80\x80\x80", "\xc0\xaf", "\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80z"}) {
    const std::string json = written(text);
    EXPECT_TRUE(nlohmann::json::accept(json)) << json;
    EXPECT_EQ(json, nlohmann::json(text).dump(-1, ' ', false, replaced)) << testing::PrintToString(text);
  }
}

TEST(JsonWriter, NumbersReadBackAsTheyWere) {
  for (const double number : {0.0, -0.0, 1.0, 0.1, 1e-5, 123456789.0, 1e15, 1e16, 1e300, 5e-324, -2.5}) {
    const std::string json = written(number);
    EXPECT_EQ(nlohmann::json::parse(json).get<double>(), number) << json;
    EXPECT_TRUE(nlohmann::json::parse(json).is_number_float()) << json;
  }
  EXPECT_EQ(written(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(written(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(written(true), "true");
}

TEST(JsonWriter, PutsCommasBetweenValues) {
  JsonWriter json;
  json.object([&] {
    json.member("a", std::vector<int>{1, 2});
    json.member("b", [&] { json.list([] {}); });
    json.member("c", [&] { json.object([&] { json.member("d", "{"); }); });
    json.member("e", [&] { json.null(); });
  });
  EXPECT_EQ(json.take(), R"({"a":[1,2],"b":[],"c":{"d":"{"},"e":null})");
}

/// The values that the reader returns, on one line.
Result<std::string> read(std::string_view text) {
  std::string events;
  const Status status = read_json(text, "this", [&](const JsonEvent& json) -> Status {
    constexpr std::string_view kinds[] = {"null", "flag", "integer", "real", "text", "list", "object", "end"};
    events += std::to_string(json.depth) + std::string(json.key) + ":" +
              std::string(kinds[static_cast<std::size_t>(json.kind)]) + std::string(json.text) + " ";
    return {};
  });
  return status.map([&] { return events; });
}

TEST(JsonReader, GivesEachValueWithItsNameAndDepth) {
  EXPECT_EQ(read(R"({"a": [1, "x", {"b": true}], "c": -2.50, "d": 18446744073709551615})").value(),
            "0:object 1a:list 2:integer1 2:textx 2:object 3b:flag 2:end 1:end 1c:real-2.50 "
            "1d:real18446744073709551615 0:end ");
}

TEST(JsonReader, SaysWhereATextGoesWrong) {
  EXPECT_THAT(read("{\"a\": }").error().message, HasSubstr("this is not valid at byte 7"));
  EXPECT_THAT(read("").error().message, HasSubstr("this is not valid at byte 1"));
  EXPECT_THAT(read("[1] 2").error().message, HasSubstr("this is not valid at byte"));
  EXPECT_THAT(read("[1e400]").error().message, HasSubstr("this has a number that no field can hold"));
}

TEST(JsonReader, IsBoundedInDepth) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(read(nested(most_json_depth)));
  for (const std::size_t depth : {std::size_t{most_json_depth} + 1, std::size_t{10'000'000}})
    EXPECT_EQ(read(nested(depth)).error().message, "this is nested deeper than 64 levels");
}

}  // namespace
}  // namespace regard
