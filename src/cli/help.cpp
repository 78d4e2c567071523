// regard help problem: the words of problem text, from the library's own declaration of them; regard help
// man.
#include <nlohmann/json.hpp>

#include "cli/json_text.h"
#include "cli/man.h"
#include "cli/text.h"
#include "cli/verbs.h"
#include "regard/regard.hpp"

namespace regard::cli {

using Json = nlohmann::json;

Answer help_verb(const Request& request) {
  if (request.words.front() == "man") return {man_page()};
  const Json words = json_of(problem_words());
  if (request.json) return {json_text(words, 2) + "\n"};
  std::vector<std::vector<std::string>> rows = {{"  word", "default", "meaning"}};
  for (const Json& word : words) {
    rows.push_back({"  " + cell(word, "word"), cell(word, "default"), cell(word, "doc")});
  }
  return {
      "A problem is one line: the pass, the type and words such as s=1024, in any order. h sets hq and hk, s "
      "sets sq\n"
      "and sk, d sets d and dv; what is left out has its default. docs/problem.md says more.\n\n" +
      table(rows)};
}

}  // namespace regard::cli
