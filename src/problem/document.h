// The words of problem text as help: for docs/problem.md, `regard --help` and regard_problem_words().
#pragma once

#include <string>
#include <vector>

#include "problem/problem.h"

namespace regard {

struct WordHelp {
  std::string word;          ///< as written: "lse", "b=N", "mask=none|causal|..."
  std::string default_text;  ///< the meaning when the word is omitted
  std::string doc;
  bool in_signature = false;  ///< part of what a kernel is compiled for
};

/// Every word in list order; the composite ones (h, s, mask=window:...) follow the fields.
std::vector<WordHelp> word_help();
std::string word_help_json();
/// The tables of docs/problem.md: words, then one for each enumeration.
std::string word_help_markdown();

}  // namespace regard
