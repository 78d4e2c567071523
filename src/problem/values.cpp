#include "problem/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/nearest.h"
#include "base/text.h"
#include "problem/functions.h"
#include "problem/other_names.h"

namespace regard {
namespace {

Status not_a_number(std::string_view name, std::string_view text, std::string_view expected) {
  return invalid(std::string(name) + "=" + std::string(text) + " is not " + std::string(expected));
}

}  // namespace

std::string value_text(bool value) {
  return value ? "on" : "off";
}
std::string value_text(std::int64_t value) {
  return std::to_string(value);
}
std::string value_text(double value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value + 0.0);
  return {buffer.data(), end};
}
std::string value_text(const OptionalScale& value) {
  return value ? value_text(*value) : "default";
}
std::string value_text(const InternedText& value) {
  return std::string(value.view());
}
std::string value_text(const FunctionNumbers& value) {
  return print(value);
}

std::string_view example_of_text(std::string_view name) {
  return name == "score" ? "s*2.0" : name == "keep" ? "kv<=q" : name == "tensors" ? "slope:fp32[1]" : "slope";
}

Status needs_value(std::string_view name, std::string_view kind, std::string_view example) {
  return invalid(std::string(name) + " needs " + std::string(kind) + ", as in " + std::string(name) + "=" +
                 std::string(example));
}

Status read_value(std::string_view name, std::string_view text, std::int64_t& value) {
  if (text.empty()) return needs_value(name, "a number", example_of(value));
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc::result_out_of_range) {
    return not_a_number(name, text, "below 2^63, the largest size there is");
  }
  if (error != std::errc{} || end != last)
    return not_a_number(name, text, "a whole number such as " + std::string(example_of(value)));
  return {};
}

Status read_value(std::string_view name, std::string_view text, double& value) {
  if (text.empty()) return needs_value(name, "a number", example_of(value));
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last || !std::isfinite(value)) {
    return not_a_number(name, text, "a finite number such as " + std::string(example_of(value)));
  }
  value = without_sign_of_zero(value);
  return {};
}

Status read_value(std::string_view name, std::string_view text, OptionalScale& value) {
  double number = 0;
  if (Status status = read_value(name, text, number); !status) return status;
  value = number;
  return {};
}

Status read_value(std::string_view name, std::string_view text, FunctionNumbers& value) {
  if (text.empty()) return needs_value(name, "a list of numbers", example_of(value));
  const Result<FunctionNumbers> numbers = parse_numbers(text);
  if (!numbers) return tl::unexpected(numbers.error());
  value = *numbers;
  return {};
}

Status unknown_value(std::string_view name, std::string_view text, std::span<const WordInfo> words) {
  std::vector<std::string_view> candidates;
  for (const WordInfo& row : words) candidates.push_back(row.word);
  const bool means_none = says_no(text) && std::ranges::find(candidates, "none") != candidates.end();
  return invalid("unknown " + std::string(name) + " " + in_quotes(text) +
                 (means_none ? "; did you mean 'none'?" : suggestion(text, candidates)));
}

}  // namespace regard
