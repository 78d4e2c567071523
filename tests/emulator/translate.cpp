#include "emulator/translate.h"

#include <fmt/format.h>

#include <regex>
#include <stdexcept>
#include <vector>

#include "emulator/trimmed.h"

namespace emulator {
namespace {

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The position after a string or character that begins at `at`.
std::size_t behind_quoted(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at)
    if (text[at] == '\\') ++at;
  return at + 1;
}

/// The position after the parenthesis that closes the one at `at`.
std::size_t behind_parentheses(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = behind_quoted(text, at);
      continue;
    }
    ++at;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && --depth == 0) return at;
  }
  throw std::runtime_error("an asm statement does not end");
}

/// The parts of `text` between separators that are outside all parentheses and quotes.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t start = 0, at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = behind_quoted(text, at);
    } else if (c == '(' || c == '[' || c == '{') {
      at = behind_parentheses(text, at);
    } else {
      if (c == separator) {
        parts.push_back(text.substr(start, at - start));
        start = at + 1;
      }
      ++at;
    }
  }
  parts.push_back(text.substr(start));
  return parts;
}

/// `"r"(x)` in the form that the emulator takes.
std::string operand_of(std::string_view text) {
  const std::size_t at = text.find('(');
  const std::string_view constraint = text.substr(0, at);
  const std::string_view value = text.substr(at);
  return fmt::format("::emulator::{}({})",
                     constraint.find('C') != std::string_view::npos ? "text" : "operand", value);
}

/// The contents of the parentheses of an asm statement: text, outputs, inputs, and clobbers.
std::string statement_of(std::string_view inside) {
  const std::vector<std::string_view> sections = parts_of(inside, ':');
  std::string operands;
  for (std::size_t i = 1; i < sections.size() && i < 3; ++i) {
    for (const std::string_view part : parts_of(sections[i], ',')) {
      if (trimmed(part).empty()) continue;
      operands += (operands.empty() ? "" : ", ") + operand_of(trimmed(part));
    }
  }
  return fmt::format(
      "do {{ static ::emulator::Site emulator_site{{{}, nullptr}}; ::emulator::execute(emulator_site, "
      "{{{}}}); }} "
      "while (0)",
      trimmed(sections[0]), operands);
}

std::string with_statements(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '"' || text[at] == '\'') {
      // A digit separator is not a quote.
      const bool quoted = text[at] == '"' || at == 0 || !is_letter(text[at - 1]);
      const std::size_t end = quoted ? behind_quoted(text, at) : at + 1;
      out += text.substr(at, end - at);
      at = end;
    } else if (is_letter(text[at])) {
      std::size_t end = at;
      while (end < text.size() && is_letter(text[end])) ++end;
      const std::string_view word = text.substr(at, end - at);
      if (word != "asm") {
        out += word;
        at = end;
        continue;
      }
      const std::size_t open = text.find('(', end), close = behind_parentheses(text, open);
      out += statement_of(text.substr(open + 1, close - open - 2));
      at = close;
    } else {
      out += text[at++];
    }
  }
  return out;
}

std::string with_shared_variables(const std::string& text) {
  static const std::regex dynamic(
      R"(extern\s+__shared__\s+(?:__align__\(([\w:]+)\)\s+)?([\w ]+?)\s+(\w+)\[\];)");
  static const std::regex fixed(R"(__shared__\s+([\w: ]+?)\s+(\w+)((?:\[[^\]]*\])*);)");
  std::string rest = std::regex_replace(
      text, dynamic, "$2* const $3 = static_cast<$2*>(emulator_runtime->dynamic_memory($1+0));");
  std::string out;
  std::smatch found;
  for (int number = 0; std::regex_search(rest, found, fixed); ++number) {
    out += found.prefix().str();
    out += fmt::format(
        "using emulator_{1} = {0} {2}; emulator_{1}& {1} = "
        "::emulator::shared_variable<emulator_{1}, {3}>();",
        found[1].str(), found[2].str(), found[3].str(), number);
    rest = found.suffix().str();
  }
  return out + rest;
}

}  // namespace

std::string translate(std::string_view source) {
  static const std::regex kernel(R"(__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\()");
  std::string text = with_shared_variables(with_statements(source));
  std::smatch found;
  if (!std::regex_search(text, found, kernel)) throw std::runtime_error("the source has no kernel");
  return fmt::format(
      "#include \"emulator/language.h\"\n"
      "#define EMULATOR_EXPORT __attribute__((visibility(\"default\")))\n"
      "extern \"C\" {{ EMULATOR_EXPORT emulator::Runtime* emulator_runtime; }}\n"
      "{}\n"
      "extern \"C\" EMULATOR_EXPORT void emulator_launch(void** parameters) {{ ::emulator::call(&{}, "
      "parameters); }}\n",
      text, found[1].str());
}

}  // namespace emulator
