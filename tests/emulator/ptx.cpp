#include "emulator/ptx.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <stdexcept>

#include "emulator/instructions.h"
#include "emulator/trimmed.h"

namespace emulator::ptx {
namespace {

using Kind = Operand::Kind;

/// The parts between commas that are outside brackets.
std::vector<std::string_view> list(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' || text[at] == '[') ++depth;
    if (text[at] == '}' || text[at] == ']') --depth;
    if (text[at] != ',' || depth > 0) continue;
    parts.push_back(trimmed(text.substr(start, at - start)));
    start = at + 1;
  }
  if (!trimmed(text).empty()) parts.push_back(trimmed(text.substr(start)));
  return parts;
}

class Parser {
 public:
  explicit Parser(int capability) : capability_(capability) {}

  Program parse(std::string_view text) {
    text = trimmed(text);
    if (text.starts_with('{')) text = text.substr(1, text.rfind('}') - 1);  // a scope around all of it
    std::vector<std::pair<std::size_t, std::string>> jumps;
    while (!(text = trimmed(text)).empty()) {
      const std::size_t end = text.find(';');
      std::string_view statement = trimmed(text.substr(0, end));
      text = end == std::string_view::npos ? "" : text.substr(end + 1);
      if (const std::size_t colon = statement.find(":\n"); colon != std::string_view::npos) {
        labels_.emplace(statement.substr(0, colon), program_.instructions.size());
        statement = trimmed(statement.substr(colon + 1));
      }
      if (statement.starts_with(".reg")) {
        declare(statement);
        continue;
      }
      Instruction instruction = read(statement);
      if (instruction.name == "bra")
        jumps.emplace_back(program_.instructions.size(), trimmed(statement.substr(statement.rfind(' '))));
      program_.instructions.push_back(std::move(instruction));
    }
    for (const auto& [at, label] : jumps)
      program_.instructions[at].operands = {{Kind::number, static_cast<std::int64_t>(labels_.at(label)), {}}};
    return std::move(program_);
  }

 private:
  /// ".reg .b16 low, high"
  void declare(std::string_view statement) {
    statement = trimmed(statement.substr(statement.find('.', 1)));
    for (const std::string_view name : list(statement.substr(statement.find(' '))))
      locals_[std::string(name)] = program_.locals++;
  }

  Instruction read(std::string_view statement) {
    Instruction instruction{};
    if (statement.starts_with('@')) {
      const std::size_t end = statement.find(' ');
      instruction.guard_value = statement[1] != '!';
      instruction.guard =
          local(statement.substr(instruction.guard_value ? 1 : 2, end - (instruction.guard_value ? 1 : 2)));
      statement = trimmed(statement.substr(end));
    }
    const std::size_t end = statement.find(' ');
    instruction.name = statement.substr(0, end);
    instruction.execute = find_instruction(instruction.name, capability_);
    if (instruction.name == "bra" || end == std::string_view::npos) return instruction;
    for (const std::string_view operand : list(statement.substr(end)))
      instruction.operands.push_back(this->operand(operand));
    return instruction;
  }

  Operand operand(std::string_view text) {
    if (text == "_") return {Kind::nothing, 0, {}};
    if (text == "%tid.x") return {Kind::thread_number, 0, {}};
    if (text == "%cluster_ctarank") return {Kind::cluster_rank, 0, {}};
    if (text.front() == '{' || text.front() == '[') {
      Operand all{text.front() == '{' ? Kind::vector : Kind::memory, 0, {}};
      for (const std::string_view part : list(text.substr(1, text.size() - 2)))
        all.parts.push_back(operand(part));
      return all;
    }
    const bool argument = text.front() == '%';
    std::int64_t number = 0;
    const char* const first = text.data() + (argument ? 1 : 0);
    const auto [end, error] = std::from_chars(first, text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size())
      return {argument ? Kind::argument : Kind::number, number, {}};
    return {Kind::local, local(text), {}};
  }

  int local(std::string_view name) const {
    const auto found = locals_.find(std::string(name));
    if (found == locals_.end())
      throw std::runtime_error(fmt::format("'{}' is no register that the text declares", name));
    return found->second;
  }

  int capability_;
  Program program_;
  std::map<std::string, int> locals_;
  std::map<std::string, std::size_t> labels_;
};

}  // namespace

Program parse(std::string_view text, int capability) {
  return Parser(capability).parse(text);
}

}  // namespace emulator::ptx
