#include "compile/function_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "function/operation.h"
#include "plan/function_steps.h"
#include "plan/variant.h"

namespace regard {
namespace {

using function::Kind;
using function::Operation;
using function::Type;

constexpr const char* no_keep = "this kernel is compiled for a mask; its key has no keep";

constexpr std::string_view names_of_operations[] = {
#define REGARD_NAME(name, ...) #name,
    REGARD_FUNCTION_OPERATIONS(REGARD_NAME)
#undef REGARD_NAME
};

std::string_view name_of(Type type) {
  return type == Type::real ? "real" : type == Type::integer ? "integer" : "boolean";
}

/// The steps of a function as statements: those that depend on the row alone apart from the others, and what
/// is known of all results for the rows and keys of a tile.
class Printer {
 public:
  explicit Printer(const FunctionSteps& steps)
      : steps_(steps.steps), root_(steps.call.keep), kept_(steps_.size()) {
    if (root_ < 0) return;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i].by_key)
        for (int k = 0; k < steps_[i].count; ++k) kept_[at(steps_[i].operands[k])] = true;
    kept_[at(root_)] = true;
    find_sides();
  }

  std::string text() const {
    return fmt::format("namespace regard {{\n{}{}}}\n", text_of_pairs(), text_of_tiles());
  }
  /// Of the range of keys that a row sees; no step depends on the key.
  std::string text_of_range(i32 begin, i32 end) const {
    std::string values;
    for (std::size_t i = 0; i < steps_.size(); ++i) values += statement(i, /*in_keys=*/false);
    return fmt::format(
        "namespace regard {{\n"
        "REGARD_DEVICE Range32 row_range({}) {{\n"
        "  using namespace function;\n{}  return {{signed_of(v{}), signed_of(v{})}};\n}}\n}}\n",
        parameters, values, begin, end);
  }

 private:
  static constexpr std::string_view parameters =
      "[[maybe_unused]] const MaskCall& call, [[maybe_unused]] const MaskPlace& at";

  static std::size_t at(i32 i) { return static_cast<std::size_t>(i); }
  bool is_of_row(std::size_t i) const { return !steps_[i].by_key; }
  static bool is_of_both(const FunctionStep& step) { return step.by_row && step.by_key; }
  static bool is_of_neither(const FunctionStep& step) { return !step.by_row && !step.by_key; }

  static std::string_view type_of(const FunctionStep& step) {
    return step.type == Type::real ? "float" : "u32";
  }

  /// For each pair of a row and a key.
  std::string text_of_pairs() const {
    std::string fields, rows, keys;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (is_of_row(i) && kept_[i]) fields += fmt::format("  {} v{};\n", type_of(steps_[i]), i);
      (is_of_row(i) ? rows : keys) += statement(i, /*in_keys=*/true);
      if (is_of_row(i) && kept_[i]) rows += fmt::format("  row.v{0} = v{0};\n", i);
    }
    return fmt::format(
        "struct RowValues {{\n{}}};\n"
        "REGARD_DEVICE RowValues row_values({}) {{\n"
        "  using namespace function;\n"
        "  RowValues row;\n{}  return row;\n}}\n"
        "REGARD_DEVICE bool keep({},\n"
        "                        [[maybe_unused]] const RowValues& row) {{\n"
        "  using namespace function;\n{}  return {} != 0;\n}}\n",
        fields, parameters, rows, parameters, keys, operand(root_, /*in_keys=*/true));
  }

  /// For the rows and keys of a tile together: of the steps that depend on one side, those which others need,
  /// and intervals of the others.
  std::string text_of_tiles() const {
    std::string both;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (is_of_neither(steps_[i])) both += statement(i, /*in_keys=*/false);
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (has_interval(steps_[i]) && is_of_both(steps_[i]))
        both += fmt::format("  const Interval v{} = {};\n", i, interval_of(steps_[i]));
    return fmt::format(
        "using RowIntervals = function::Intervals<{}>;\n"
        "using KeyIntervals = function::Intervals<{}>;\n{}{}"
        "REGARD_DEVICE function::Interval keep_of_tile({},\n"
        "    [[maybe_unused]] const RowIntervals& rows, [[maybe_unused]] const KeyIntervals& keys) {{\n"
        "  using namespace function;\n{}  return {};\n}}\n",
        of_rows_.size(), of_keys_.size(), text_of_side("row", of_rows_, &FunctionStep::by_key),
        text_of_side("key", of_keys_, &FunctionStep::by_row), parameters, both, interval(root_));
  }
  std::string text_of_side(std::string_view side, const std::vector<std::size_t>& needed,
                           bool FunctionStep::* other) const {
    std::string text;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (!(steps_[i].*other)) text += statement(i, /*in_keys=*/false);
    for (std::size_t i = 0; i < needed.size(); ++i) text += fmt::format("  to[{}] = v{};\n", i, needed[i]);
    return fmt::format(
        "REGARD_DEVICE void numbers_of_{}({},\n"
        "                                 [[maybe_unused]] u32 (&to)[{}]) {{\n"
        "  using namespace function;\n{}}}\n",
        side, parameters, std::max<std::size_t>(needed.size(), 1), text);
  }

  /// Real numbers have none.
  static bool has_interval(const FunctionStep& step) { return step.type != Type::real; }
  /// Its operands have them.
  static bool has_intervals(const FunctionStep& step) { return step.operand != Type::real; }
  void find_sides() {
    std::vector<bool> needed(steps_.size());
    needed[at(root_)] = true;
    for (const FunctionStep& step : steps_)
      if (is_of_both(step) && has_interval(step) && has_intervals(step))
        for (int k = 0; k < step.count; ++k) needed[at(step.operands[k])] = true;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (needed[i] && has_interval(steps_[i]) && steps_[i].by_row != steps_[i].by_key)
        (is_of_row(i) ? of_rows_ : of_keys_).push_back(i);
  }
  std::string interval(i32 i) const {
    const FunctionStep& step = steps_[at(i)];
    if (!has_interval(step)) return "any_of(Type::real)";
    if (is_of_both(step)) return fmt::format("v{}", i);
    if (is_of_neither(step)) return fmt::format("single_of(v{})", i);
    const std::vector<std::size_t>& side = is_of_row(at(i)) ? of_rows_ : of_keys_;
    return fmt::format("{}[{}]", is_of_row(at(i)) ? "rows" : "keys",
                       std::find(side.begin(), side.end(), at(i)) - side.begin());
  }
  std::string interval_of(const FunctionStep& step) const {
    if (step.kind == Kind::operation && !has_intervals(step))
      return fmt::format("any_of(Type::{})", name_of(step.type));
    const auto x = [&](int k) { return interval(step.operands[k < step.count ? k : 0]); };
    if (step.kind == Kind::operation)
      return fmt::format("of_operation(Operation::{}, Type::{}, Type::{}, {}, {}, {})",
                         names_of_operations[step.which], name_of(step.type), name_of(step.operand), x(0),
                         x(1), x(2));
    // A variable depends on one side, so this is a tensor's element.
    std::string single, indices;
    for (int k = 0; k < step.count; ++k) {
      single += fmt::format("{}{}.single()", k > 0 ? " && " : "", x(k));
      indices += fmt::format("{}static_cast<u32>({}.low)", k > 0 ? ", " : "", x(k));
    }
    return fmt::format("load_any<Type::{}>(call.tensors[{}], {}, {{{}}})", name_of(step.type), step.which,
                       single, indices);
  }

  std::string statement(std::size_t i, bool in_keys) const {
    return fmt::format("  const {} v{} = {};\n", type_of(steps_[i]), i,
                       value_of(i, in_keys && steps_[i].by_key));
  }

  /// Bits as the number that they are.
  static std::string in_type(const FunctionStep& step, const std::string& bits) {
    return step.type == Type::real ? fmt::format("bits_as<float>({})", bits) : bits;
  }

  std::string operand(i32 i, bool in_keys) const {
    return fmt::format("{}v{}", in_keys && is_of_row(at(i)) ? "row." : "", i);
  }

  /// `in_keys`: values of the row come from RowValues.
  std::string value_of(std::size_t i, bool in_keys) const {
    const FunctionStep& step = steps_[i];
    const auto x = [&](int k) { return operand(step.operands[k], in_keys); };
    switch (step.kind) {
      case Kind::constant:
        return in_type(step, fmt::format("{:#x}u", step.bits));
      case Kind::number:
        return in_type(step, fmt::format("call.numbers[{}]", step.which));
      case Kind::variable:
        return fmt::format("static_cast<u32>(at.{})", function::variables()[step.which]);
      case Kind::load: {
        std::string indices;
        for (int k = 0; k < step.count; ++k) indices += fmt::format("{}{}", k > 0 ? ", " : "", x(k));
        return fmt::format("load<Type::{}>(call.tensors[{}], {{{}}})", name_of(step.type), step.which,
                           indices);
      }
      case Kind::operation:
        break;
    }
    if (static_cast<Operation>(step.which) == Operation::where)
      return fmt::format("{} != 0 ? {} : {}", x(0), x(1), x(2));
    return fmt::format("of_{}<Operation::{}>({}, {})",
                       step.operand == Type::real      ? "reals"
                       : step.operand == Type::integer ? "integers"
                                                       : "conditions",
                       names_of_operations[step.which], x(0), x(step.count > 1 ? 1 : 0));
  }

  const std::vector<FunctionStep>& steps_;
  i32 root_;
  std::vector<bool> kept_;                      // of the row, for those of keys
  std::vector<std::size_t> of_rows_, of_keys_;  // whose intervals the others take
};

}  // namespace

Result<std::string> function_source(const Signature& signature) {
  if (signature.keep.empty()) return invalid(no_keep);
  const Result<FunctionSteps> steps = mask_steps(example_of(signature));
  if (!steps) return tl::unexpected(steps.error());
  return Printer(*steps).text();
}

Result<std::string> range_source(const Signature& signature) {
  if (signature.keep.empty()) return invalid(no_keep);
  const Result<FunctionSteps> steps = range_steps_of_any_numbers(example_of(signature));
  if (!steps) return tl::unexpected(steps.error());
  return Printer(*steps).text_of_range(steps->call.begin, steps->call.end);
}

}  // namespace regard
