#include "aot/public_names.h"

#include <algorithm>

#include "base/embedded.h"
#include "compile/comments.h"

namespace regard::aot {
namespace {

bool in_identifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_own(std::string_view word) {
  return word.starts_with("regard_") || word.starts_with("REGARD_");
}

/// Calls `take` for each piece of the text: each identifier or number, and what is between them.
template <class Take>
void for_each_word(std::string_view text, Take take) {
  while (!text.empty()) {
    const bool word = in_identifier(text[0]);
    const auto end = std::ranges::find_if(text, [word](char other) { return in_identifier(other) != word; });
    const auto length = static_cast<std::size_t>(end - text.begin());
    take(text.substr(0, length));
    text.remove_prefix(length);
  }
}

}  // namespace

std::string_view public_header() {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == "include/regard/regard.h") return file.text;
  return {};
}

std::set<std::string, std::less<>> public_names(std::string_view header) {
  std::set<std::string, std::less<>> names;
  for_each_word(without_comments(header), [&](std::string_view word) {
    if (is_own(word)) names.emplace(word);
  });
  return names;
}

std::string in_namespace(std::string_view name, std::string_view name_space) {
  std::string prefix(name_space);
  if (name.starts_with("REGARD_")) {
    for (char& c : prefix)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return prefix + "_" + std::string(name);
}

std::string header_in_namespace(std::string_view header, std::string_view name_space) {
  const auto names = public_names(header);
  std::string renamed;
  for_each_word(header, [&](std::string_view word) {
    if (names.contains(word))
      renamed += in_namespace(word, name_space);
    else
      renamed += word;
  });
  return renamed;
}

}  // namespace regard::aot
