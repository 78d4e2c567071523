#include "compile/function_source.h"

#include <fmt/format.h>

#include <vector>

#include "function/operation.h"
#include "plan/function_steps.h"
#include "plan/variant.h"

namespace regard {
namespace {

using function::Kind;
using function::Operation;
using function::Type;

constexpr std::string_view names_of_operations[] = {
#define REGARD_NAME(name, ...) #name,
    REGARD_FUNCTION_OPERATIONS(REGARD_NAME)
#undef REGARD_NAME
};

/// The steps of a function as statements, those that depend on the row alone apart from the others.
class Printer {
 public:
  explicit Printer(const FunctionSteps& steps) : steps_(steps.steps), root_(steps.call.keep) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!steps_[i].by_key) continue;
      for (int k = 0; k < steps_[i].count; ++k) need(steps_[i].operands[k]);
    }
    need(root_);
  }

  std::string text() const {
    std::string fields, rows, keys;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (is_of_row(i) && kept_[i]) fields += fmt::format("  {} v{};\n", type_of(steps_[i]), i);
      (is_of_row(i) ? rows : keys) +=
          fmt::format("  const {} v{} = {};\n", type_of(steps_[i]), i, value_of(i));
      if (is_of_row(i) && kept_[i]) rows += fmt::format("  row.v{0} = v{0};\n", i);
    }
    return fmt::format(
        "namespace regard {{\n"
        "struct RowValues {{\n{}}};\n"
        "REGARD_DEVICE RowValues row_values([[maybe_unused]] const MaskCall& call,\n"
        "                                   [[maybe_unused]] const MaskPlace& at) {{\n"
        "  using namespace function;\n"
        "  RowValues row;\n{}  return row;\n}}\n"
        "REGARD_DEVICE bool keep([[maybe_unused]] const MaskCall& call, [[maybe_unused]] const MaskPlace& "
        "at,\n"
        "                        [[maybe_unused]] const RowValues& row) {{\n"
        "  using namespace function;\n{}  return {} != 0;\n}}\n"
        "}}\n",
        fields, rows, keys, operand(root_, /*in_keys=*/true));
  }

 private:
  bool is_of_row(std::size_t i) const { return !steps_[i].by_key; }
  /// The keys' statements read it.
  void need(i32 i) {
    kept_.resize(steps_.size());
    kept_[static_cast<std::size_t>(i)] = true;
  }

  static std::string_view type_of(const FunctionStep& step) {
    return step.type == Type::real ? "float" : "u32";
  }

  /// Bits as the number that they are.
  static std::string in_type(const FunctionStep& step, const std::string& bits) {
    return step.type == Type::real ? fmt::format("bits_as<float>({})", bits) : bits;
  }

  std::string operand(i32 i, bool in_keys) const {
    const bool from_row = in_keys && is_of_row(static_cast<std::size_t>(i));
    return fmt::format("{}v{}", from_row ? "row." : "", i);
  }

  std::string value_of(std::size_t i) const {
    const FunctionStep& step = steps_[i];
    const auto x = [&](int k) { return operand(step.operands[k], step.by_key); };
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
        return fmt::format("load<Type::{}>(call.tensors[{}], {{{}}})",
                           step.type == Type::real      ? "real"
                           : step.type == Type::integer ? "integer"
                                                        : "boolean",
                           step.which, indices);
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
  std::vector<bool> kept_;
};

}  // namespace

Result<std::string> function_source(const Signature& signature) {
  if (signature.keep.empty()) return invalid("this kernel is compiled for a mask; its key has no keep");
  const Result<FunctionSteps> steps = mask_steps(example_of(signature));
  if (!steps) return tl::unexpected(steps.error());
  return Printer(*steps).text();
}

}  // namespace regard
