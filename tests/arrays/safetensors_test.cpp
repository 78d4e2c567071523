#include "arrays/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "support/files.h"

namespace regard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string safetensors(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 255);
  return file + header + data;
}

std::string error_of(const std::string& file) {
  const auto arrays = read_safetensors(bytes(file));
  return arrays ? "" : arrays.error().message;
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const std::string file = safetensors(
      R"({"__metadata__":{"format":"pt"},"k":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
      R"("q":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"e":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})",
      "abcdefgh");
  const auto arrays = read_safetensors(bytes(file));
  ASSERT_TRUE(arrays) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 3u);
  EXPECT_EQ((*arrays)[0].name, "q");
  EXPECT_EQ((*arrays)[0].array.element, Element::bf16);
  EXPECT_THAT((*arrays)[0].array.shape, ElementsAre(2, 1));
  EXPECT_EQ((*arrays)[1].name, "e");
  EXPECT_EQ((*arrays)[2].name, "k");
}

TEST(Safetensors, ReadsItsOwnHeader) {
  const std::vector<NamedArray> written = {{"o", {Element::bf16, {2, 3}, {}}},
                                           {"lse", {Element::f32, {5}, {}}}};
  const std::string file = safetensors_header(written) + std::string(32, 'x');
  const auto read = read_safetensors(bytes(file));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].name, "o");
  EXPECT_THAT((*read)[1].array.shape, ElementsAre(5));
}

TEST(Safetensors, SaysWhatIsWrong) {
  const struct {
    std::string file, message;
  } cases[] = {
      {"", "truncated"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8), "not a safetensors file"},
      {std::string("\x10\0\0\0\0\0\0\0{}", 10), "truncated"},
      {safetensors("[]", ""), "not a JSON object"},
      {safetensors("{", ""), "its header is not valid at byte"},
      {safetensors(R"({"q":{"a":)" + std::string(100000, '['), ""), "its header is nested deeper"},
      {safetensors(R"({"q":1e999})", ""), "its header has a number that no field can hold"},
      {safetensors(R"({"q":1})", ""), "not described by an object"},
      {safetensors(R"({"q":{}})", ""), "has no dtype"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", ""), "whole numbers"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[1.5],"data_offsets":[0,0]}})", ""), "whole numbers"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "x"), "two data_offsets"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "x"), "truncated"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "x"), "truncated"},
      {safetensors(R"({"q":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}})", "x"),
       "but its data is 1 bytes"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
       "but its data is 0 bytes"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy"), "leaves a hole"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "xy"), "more data"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                   R"("k":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                   "x"),
       "overlaps"},
      {safetensors(R"({"q":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                   R"("q":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                   "x"),
       "twice"},
  };
  for (const auto& each : cases)
    EXPECT_THAT(error_of(each.file), HasSubstr(each.message)) << each.file.substr(0, 200);
}

TEST(Safetensors, AHeaderOfAnyLengthIsReadInProportion) {
  const auto seconds = [](int tensors) {
    std::string header = "{";
    for (int i = 0; i < tensors; ++i)
      header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
                R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    const std::string file = safetensors(header + "}", "");
    const auto start = std::chrono::steady_clock::now();
    const std::string error = error_of(file);
    EXPECT_EQ(error, tensors > 100'000 ? "it holds more than 100000 tensors" : "");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_LT(seconds(80'000), 10);  // it took 63 s when each was compared with all before it
  EXPECT_LT(seconds(1'000'000), 20);
}

TEST(Safetensors, SurvivesDamagedFiles) {
  const std::vector<NamedArray> arrays = {{"q", {Element::f16, {2, 3}, {}}}, {"k", {Element::f32, {1}, {}}}};
  survive(safetensors_header(arrays) + std::string(16, 'x'),
          [](const std::string& damaged) { (void)error_of(damaged); });
}

}  // namespace
}  // namespace regard
