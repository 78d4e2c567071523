#include "emulator/hip/translate.h"

#include <fmt/format.h>

#include <regex>
#include <stdexcept>

#include "emulator/trimmed.h"

namespace emulator::hip {
namespace {

/// The position after the parenthesis that closes the one at `at`.
std::size_t behind_parentheses(std::string_view text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at + 1;
  }
  throw std::runtime_error("a parenthesis is not closed");
}

/// Without attributes and alignments.
std::string without_attributes(std::string text) {
  static const std::regex attribute(R"(\b(__attribute__|alignas|__attribute)\s*\()");
  std::smatch found;
  while (std::regex_search(text, found, attribute)) {
    const auto start = static_cast<std::size_t>(found.position());
    text.erase(start, behind_parentheses(text, text.find('(', start)) - start);
  }
  return text;
}

/// What is in the parentheses of `aligned(…)`, if it is there.
std::string alignment_of(const std::string& statement) {
  constexpr std::string_view word = "aligned(";
  const std::size_t at = statement.find(word);
  if (at == std::string::npos) return "1";
  const std::size_t first = at + word.size();
  return statement.substr(first, behind_parentheses(statement, first - 1) - 1 - first);
}

struct Translated {
  std::string text;
  int static_variables = 0;
  std::string dynamic_alignment = "1";  // an expression of the source
};

/// A statement that declares a variable of LDS: `extern … unsigned char name[];` or `… float name[2][3];`.
Translated with_shared_variables(std::string text) {
  static const std::regex shared(
      R"(__attribute__\s*\(\((?:\w+(?:\([^()]*\))?\s*,\s*)*(?:__)?shared(?:__)?\s*[,)])");
  static const std::regex declaration(R"(^([\w:\s]*[\w:])\s+(\w+)\s*((?:\[[^\]]*\]\s*)*)$)");
  Translated out;
  std::smatch found;
  while (std::regex_search(text, found, shared)) {
    const std::size_t at = static_cast<std::size_t>(found.position());
    const std::size_t start = text.find_last_of(";{}\n", at) + 1, end = text.find(';', at);
    const std::string declared = text.substr(start, end - start);
    std::string statement = without_attributes(declared);
    const bool dynamic = statement.find("extern") != std::string::npos;
    statement = std::regex_replace(statement, std::regex(R"(\b(extern|static)\b)"), "");
    statement = std::string(trimmed(statement));
    std::smatch parts;
    if (!std::regex_match(statement, parts, declaration))
      throw std::runtime_error(fmt::format("a shared variable is not understood: {}", statement));
    const std::string type = parts[1].str(), name = parts[2].str(), extents = parts[3].str();
    out.text += text.substr(0, start);
    if (dynamic) {
      out.dynamic_alignment = alignment_of(declared);
      out.text +=
          fmt::format("{0}* const {1} = static_cast<{0}*>(emulator_runtime->dynamic_memory())", type, name);
    } else
      out.text += fmt::format(
          "using emulator_{1} = {0} {2}; emulator_{1}& {1} = "
          "::emulator::hip::static_variable<emulator_{1}, {3}>()",
          type, name, extents, out.static_variables++);
    text.erase(0, end);
  }
  out.text += text;
  return out;
}

std::string with_lds_pointers(const std::string& text) {
  static const std::regex alias(
      R"(using\s+(\w+)\s*=\s*__attribute__\(\(address_space\(3\)\)\)\s*(\w+)\s*\*\s*;)");
  static const std::regex other_order(
      R"(using\s+(\w+)\s*=\s*(\w+)\s+__attribute__\(\(address_space\(3\)\)\)\s*\*\s*;)");
  static const std::regex global(R"(__attribute__\(\(address_space\([14]\)\)\))");
  std::string out = std::regex_replace(text, alias, "using $1 = ::emulator::hip::LdsPointer<$2>;");
  out = std::regex_replace(out, other_order, "using $1 = ::emulator::hip::LdsPointer<$2>;");
  out = std::regex_replace(out, global, "");
  if (out.find("address_space(3)") != std::string::npos)
    throw std::runtime_error("LDS is reached by a pointer that is not the one alias of the source");
  return out;
}

}  // namespace

std::string translate(std::string_view source) {
  static const std::regex kernel(R"(__attribute__\s*\(\(\s*(?:__)?global\b[^;{}]*\bvoid\s+(\w+)\s*\()");
  const Translated translated = with_shared_variables(with_lds_pointers(std::string(source)));
  const std::string text = std::regex_replace(translated.text, std::regex(R"(\b__bf16\b)"), "short");
  std::smatch found;
  if (!std::regex_search(text, found, kernel)) throw std::runtime_error("the source has no kernel");
  return fmt::format(
      "#include \"emulator/hip/language.h\"\n"
      "#define EMULATOR_EXPORT __attribute__((visibility(\"default\")))\n"
      "extern \"C\" {{ EMULATOR_EXPORT emulator::hip::Runtime* emulator_runtime;\n"
      "EMULATOR_EXPORT extern const int emulator_static_variables = {};\n"
      "EMULATOR_EXPORT extern const char emulator_kernel[] = \"{}\"; }}\n"
      "{}\n"
      "extern \"C\" {{ EMULATOR_EXPORT extern const int emulator_dynamic_alignment = {}; }}\n"
      "extern \"C\" EMULATOR_EXPORT void emulator_launch(void** parameters) {{ ::emulator::hip::call(&{}, "
      "parameters); }}\n",
      translated.static_variables, found[1].str(), text, translated.dynamic_alignment, found[1].str());
}

}  // namespace emulator::hip
