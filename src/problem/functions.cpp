#include "problem/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "base/nearest.h"
#include "base/text.h"
#include "function/names.h"
#include "function/parse.h"
#include "function/print.h"
#include "function/recounted.h"
#include "problem/mask_alone.h"

namespace regard {
namespace {

using function::Captured;
using function::Function;
using function::Number;
using function::Purpose;
using function::Type;

tl::unexpected<Error> about(std::string_view word, const Error& error) {
  return invalid(fmt::format("{}: {}", word, error.message));
}

Result<Function> parsed(Purpose purpose, std::string_view text, const std::vector<Captured>& tensors) {
  if (text.empty()) return Function{{}, function::none, tensors};
  Result<Function> function = function::parse(purpose, text, tensors);
  if (!function) return about(purpose == Purpose::score ? "score" : "keep", function.error());
  return function;
}

/// The indices of the tensors named in `grads=`, sorted.
Result<std::vector<int>> gradients_of(std::string_view text, const std::vector<Captured>& tensors) {
  std::vector<int> gradients;
  if (text.empty()) return gradients;
  std::vector<std::string_view> names;
  for (const Captured& tensor : tensors) names.push_back(tensor.name);
  for (const std::string_view name : split(text, ",")) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      return invalid(
          fmt::format("grads: {} is not one of the tensors{}", in_quotes(name), suggestion(name, names)));
    const auto index = static_cast<int>(found - names.begin());
    if (tensors[static_cast<std::size_t>(index)].type != Type::real)
      return invalid(fmt::format("grads: {} is {}; only fp32 tensors have a gradient", name,
                                 word(tensors[static_cast<std::size_t>(index)].type)));
    gradients.push_back(index);
  }
  std::sort(gradients.begin(), gradients.end());
  if (std::adjacent_find(gradients.begin(), gradients.end()) != gradients.end())
    return invalid(fmt::format("grads={} names a tensor twice; give it once", text));
  return gradients;
}

Result<Functions> parsed(std::string_view score, std::string_view keep, std::string_view tensors,
                         std::string_view grads) {
  Functions result;
  if (!tensors.empty()) {
    Result<std::vector<Captured>> declared = function::parse_tensors(tensors);
    if (!declared) return about("tensors", declared.error());
    result.tensors = std::move(*declared);
  }
  Result<Function> of_score = parsed(Purpose::score, score, result.tensors);
  if (!of_score) return tl::unexpected(of_score.error());
  Result<Function> of_keep = parsed(Purpose::keep, keep, result.tensors);
  if (!of_keep) return tl::unexpected(of_keep.error());
  Result<std::vector<int>> gradients = gradients_of(grads, result.tensors);
  if (!gradients) return tl::unexpected(gradients.error());
  result.score = std::move(*of_score);
  result.keep = std::move(*of_keep);
  result.gradients = std::move(*gradients);
  return result;
}

std::string text_of(const Function& function) {
  return function.root == function::none ? std::string() : function::print(function);
}

/// One step towards the canonical text; printing can share more than what was read.
Result<FunctionTexts> rewritten(const FunctionTexts& given, bool keeps_numbers) {
  Result<Functions> functions = parsed(given.score, given.keep, given.tensors, given.grads);
  if (!functions) return tl::unexpected(functions.error());
  FunctionTexts result;
  std::vector<Function> both = {std::move(functions->score), std::move(functions->keep)};
  if (!keeps_numbers) {
    const std::vector<Number> numbers(given.numbers.of.begin(),
                                      given.numbers.of.begin() + given.numbers.count);
    for (Function& one : both) {
      Result<Function> literal = function::with_literals(one, numbers);
      if (!literal) return tl::unexpected(literal.error());
      one = std::move(*literal);
    }
    Result<function::Numbered> numbered = function::numbered(both);
    if (!numbered) return tl::unexpected(numbered.error());
    both = std::move(numbered->functions);
    result.numbers.count = static_cast<std::uint8_t>(numbered->numbers.size());
    std::copy(numbered->numbers.begin(), numbered->numbers.end(), result.numbers.of.begin());
  }
  result.score = text_of(both[0]);
  result.keep = text_of(both[1]);
  result.tensors = function::print(functions->tensors);
  for (const int gradient : functions->gradients)
    result.grads +=
        (result.grads.empty() ? "" : ",") + functions->tensors[static_cast<std::size_t>(gradient)].name;
  return result;
}

/// Names with commas between them, of tensors that another word declares.
bool is_list_of_names(std::string_view text) {
  const auto is_name = [](std::string_view name) {
    return !name.empty() && function::begins_name(name.front()) &&
           std::all_of(name.begin(), name.end(), function::continues_name);
  };
  const std::vector<std::string_view> names = split(text, ",");
  return std::all_of(names.begin(), names.end(), is_name);
}

/// Whether a function reads each of the numbers.
Status all_are_read(const Functions& functions, const FunctionNumbers& numbers) {
  for (int i = 0; i < numbers.count; ++i) {
    const auto reads = [i](const Function& f) {
      return std::any_of(f.tree.nodes().begin(), f.tree.nodes().end(), [i](const function::Node& node) {
        return node.kind == function::Kind::number && node.which == i;
      });
    };
    if (reads(functions.score) || reads(functions.keep)) continue;
    const bool whole = numbers.of[static_cast<std::size_t>(i)].type == Type::integer;
    return invalid(
        fmt::format("numbers: neither score nor keep reads {}{}; remove it", whole ? 'n' : 'f', i));
  }
  return {};
}

}  // namespace

Result<Functions> functions_of(const Problem& p) {
  return parsed(p.score.view(), p.keep.view(), p.tensors.view(), p.grads.view());
}

Result<int> captured_index(const Problem& p, std::string_view name) {
  const Result<Functions> functions = functions_of(p);
  if (!functions) return tl::unexpected(functions.error());
  std::vector<std::string_view> names;
  for (const Captured& tensor : functions->tensors) names.push_back(tensor.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return invalid(fmt::format("{} is not one of the tensors{}", in_quotes(name), suggestion(name, names)));
  return static_cast<int>(found - names.begin());
}

Result<FunctionTexts> canonical(FunctionTexts given, Numbers of_numbers) {
  if (given.score.empty() && given.keep.empty() && given.tensors.empty()) {
    // The function may come in a later word; validate() requires it.
    if (given.grads.empty() || is_list_of_names(given.grads)) return given;
    return invalid(fmt::format("grads={} is not a list of names, as in grads=slope,bias", given.grads));
  }
  const bool has_function = !given.score.empty() || !given.keep.empty();
  if (of_numbers == Numbers::given && has_function) {
    const Result<Functions> functions = parsed(given.score, given.keep, given.tensors, given.grads);
    if (!functions) return tl::unexpected(functions.error());
    if (Status status = all_are_read(*functions, given.numbers); !status)
      return tl::unexpected(status.error());
  }
  const FunctionNumbers numbers = given.numbers;
  const bool keeps_numbers = of_numbers == Numbers::without_values;
  constexpr int most_steps = 8;
  for (int step = 0; step < most_steps; ++step) {
    Result<FunctionTexts> next = rewritten(given, keeps_numbers);
    if (!next && step == 0) return next;
    // The canonical text of a function near the limits can be beyond them.
    if (!next)
      return invalid("the function is too large once it is written in full: " + next.error().message);
    if (*next == given) {
      if (!has_function) next->numbers = numbers;
      return next;
    }
    given = std::move(*next);
  }
  return invalid("the function has no canonical text; write it in another way");
}

Result<MaskAlone> mask_alone(std::string_view keep, std::string_view tensors) {
  MaskAlone mask{std::string(keep), std::string(tensors), {}, {}};
  const auto of_given = [](std::vector<int> own, const std::vector<int>& earlier) {
    if (!earlier.empty())
      for (int& one : own) one = earlier[static_cast<std::size_t>(one)];
    return own;
  };
  // New numbers can change the order of sorted operands, and that changes the numbers: until neither changes.
  constexpr int most_steps = 8;
  for (int step = 0; step < most_steps; ++step) {
    const Result<Functions> functions = parsed({}, mask.keep, mask.tensors, {});
    if (!functions) return tl::unexpected(functions.error());
    const function::Recounted next = function::recounted(functions->keep);
    const std::string text = text_of(next.function), declared = function::print(next.function.tensors);
    mask.of_numbers = of_given(next.numbers, mask.of_numbers);
    mask.of_tensors = of_given(next.tensors, mask.of_tensors);
    if (text == mask.keep && declared == mask.tensors) break;
    mask.keep = text;
    mask.tensors = declared;
  }
  return mask;
}

std::string print(const FunctionNumbers& numbers) {
  std::string text;
  for (int i = 0; i < numbers.count; ++i) {
    const Number& number = numbers.of[static_cast<std::size_t>(i)];
    const bool whole = number.type == Type::integer;
    text += fmt::format("{}{}{}:{}", text.empty() ? "" : ",", whole ? 'n' : 'f', i,
                        whole ? fmt::to_string(std::bit_cast<std::int32_t>(number.bits))
                              : function::text_of_real(std::bit_cast<float>(number.bits)));
  }
  return text;
}

Result<FunctionNumbers> parse_numbers(std::string_view text) {
  const auto wrong = [](std::string_view part) {
    return invalid(
        fmt::format("numbers: {} is not understood; int32 and fp32 numbers are given in order, as in "
                    "numbers=n0:64,f1:0.5",
                    in_quotes(part)));
  };
  FunctionNumbers numbers;
  if (text.size() > function::most_characters) return wrong(text);
  for (const std::string_view part : split(text, ",")) {
    const std::size_t colon = part.find(':');
    const auto name = function::number_name(part.substr(0, colon));
    if (colon == std::string_view::npos || !name || name->index != numbers.count) return wrong(part);
    if (numbers.count == static_cast<int>(function::most_numbers))
      return invalid(fmt::format("numbers: a problem has at most {} numbers", function::most_numbers));
    const char *const begin = part.data() + colon + 1, *const end = part.data() + part.size();
    Number number{name->type, 0};
    std::from_chars_result read{};
    if (name->type == Type::integer) {
      std::int32_t value = 0;
      read = std::from_chars(begin, end, value);
      number.bits = std::bit_cast<std::uint32_t>(value);
    } else {
      float value = 0;
      read = std::from_chars(begin, end, value);
      number.bits = std::bit_cast<std::uint32_t>(value);
      if (!std::isfinite(value)) return wrong(part);
    }
    if (read.ec != std::errc{} || read.ptr != end) return wrong(part);
    numbers.of[numbers.count++] = number;
  }
  return numbers;
}

}  // namespace regard
