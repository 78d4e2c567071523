// Pages of docs/ have parts that are generated from the code, between two marker comments.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace regard {

/// Expects that the generated part of docs/<page> is `expected`. If UPDATE_DOCS=1 is set, writes it instead.
inline void expect_generated_docs(std::string_view page, std::string_view expected) {
  const std::string path = std::string(REGARD_SOURCE_DIR) + "/docs/" + std::string(page);
  const std::string begin = "<!-- generated from the code; UPDATE_DOCS=1 ./dev test writes it anew -->\n";
  const std::string end = "<!-- end of the generated part -->\n";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::string text((std::istreambuf_iterator<char>(file)), {});
  file.close();
  const std::size_t first = text.find(begin);
  const std::size_t last = text.find(end);
  ASSERT_NE(first, std::string::npos) << path << " has no line " << begin;
  ASSERT_NE(last, std::string::npos) << path << " has no line " << end;
  const std::size_t start = first + begin.size();
  if (std::getenv("UPDATE_DOCS") != nullptr) {
    text.replace(start, last - start, expected);
    std::ofstream(path) << text;
    return;
  }
  EXPECT_EQ(text.substr(start, last - start), expected) << path << ": UPDATE_DOCS=1 rewrites it";
}

}  // namespace regard
