#include "cli/requested_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "base/text.h"
#include "cli/failure.h"

namespace regard::cli {
namespace {

std::vector<std::string> problems_on_command_line(const std::vector<std::string>& words) {
  const bool quoted =
      std::ranges::any_of(words, [](const std::string& word) { return word.find(' ') != std::string::npos; });
  if (quoted || words.empty()) return words;
  return {fmt::format("{}", fmt::join(words, " "))};
}

std::vector<std::string> problems_in(std::istream& file) {
  std::vector<std::string> problems;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos && line[0] != '#') problems.push_back(line);
  }
  return problems;
}

}  // namespace

std::vector<std::string> requested_problems(const Request& request) {
  std::vector<std::string> problems = problems_on_command_line(request.words);
  if (request.problems == "-") {
    std::ranges::copy(problems_in(std::cin), std::back_inserter(problems));
  } else if (!request.problems.empty()) {
    std::ifstream file(request.problems);
    if (!file)
      fail_with(fmt::format("cannot read {}: {}", printable(request.problems), std::strerror(errno)));
    std::ranges::copy(problems_in(file), std::back_inserter(problems));
    if (file.bad())
      fail_with(fmt::format("cannot read {}: {}", printable(request.problems), std::strerror(errno)));
  }
  if (problems.empty() && request.record.empty() && request.manifest.empty())
    fail_with("a problem is missing, such as: fwd bf16 h=16 s=1024 d=128 mask=causal");
  return problems;
}

}  // namespace regard::cli
