#include "function/operation.h"

#include <algorithm>
#include <iterator>

namespace regard::function {
namespace {

constexpr OperationInfo table[] = {
#define REGARD_ROW(name, text, operands, typing, level, commutes) \
  {text, operands, Typing::typing, Level::level, commutes},
    REGARD_FUNCTION_OPERATIONS(REGARD_ROW)
#undef REGARD_ROW
};

constexpr std::string_view names_of_variables[] = {
#define REGARD_NAME(name, ...) #name,
    REGARD_FUNCTION_VARIABLES(REGARD_NAME)
#undef REGARD_NAME
};

}  // namespace

std::string_view word(Type type) {
  switch (type) {
    case Type::boolean:
      return "bool";
    case Type::integer:
      return "int32";
    case Type::real:
      break;
  }
  return "fp32";
}

std::span<const OperationInfo> operations() {
  return table;
}

const OperationInfo& info(Operation operation) {
  return table[static_cast<std::size_t>(operation)];
}

std::optional<Operation> called(std::string_view name) {
  const auto* const found = std::find_if(std::begin(table), std::end(table), [&](const OperationInfo& row) {
    return row.level == Level::call && row.text == name;
  });
  if (found == std::end(table)) return std::nullopt;
  return static_cast<Operation>(found - std::begin(table));
}

std::span<const std::string_view> variables() {
  return names_of_variables;
}

}  // namespace regard::function
