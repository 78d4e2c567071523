#include "function/print.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "function/names.h"

namespace regard::function {
namespace {

/// How tightly a text binds. What stands alone binds most tightly.
constexpr Level alone = Level::call;

bool binds_less(Level level, Level than) {
  if (level == alone) return false;
  return than == alone || level < than;
}

class Printer {
 public:
  explicit Printer(const Function& function)
      : function_(function), uses_(function.tree.nodes().size(), 0), names_(function.tree.nodes().size()) {
    count(function.root);
  }

  std::string text() {
    const std::string root = of(function_.root, Level::either);
    return locals_ + root;
  }

 private:
  const Node& node(NodeIndex i) const { return function_.tree[i]; }

  void count(NodeIndex i) {
    if (++uses_[static_cast<std::size_t>(i)] > 1) return;
    for (int k = 0; k < node(i).count(); ++k) count(node(i).operands[k]);
  }

  /// The text of a node, in brackets if it binds less tightly than `least`.
  std::string of(NodeIndex i, Level least) {
    std::string& name = names_[static_cast<std::size_t>(i)];
    if (!name.empty()) return name;
    Level level = alone;
    std::string text = written(i, level);
    const Kind kind = node(i).kind;
    const bool shared =
        uses_[static_cast<std::size_t>(i)] > 1 && (kind == Kind::operation || kind == Kind::load);
    if (shared) {
      const std::string chosen = next_name();
      locals_ += chosen + "=" + text + ";";
      return names_[static_cast<std::size_t>(i)] = chosen;
    }
    return binds_less(level, least) ? "(" + text + ")" : text;
  }

  std::string written(NodeIndex i, Level& level) {
    const Node& n = node(i);
    switch (n.kind) {
      case Kind::variable:
        return std::string(variables()[n.which]);
      case Kind::number:
        return fmt::format("{}{}", n.type == Type::real ? 'f' : 'n', n.which);
      case Kind::load:
        return load(n);
      case Kind::constant:
        return constant(n, level);
      case Kind::operation:
        break;
    }
    return operation(n, level);
  }

  std::string load(const Node& n) {
    std::string text = function_.tensors[n.which].name;
    for (int k = 0; k < n.count(); ++k) text += (k == 0 ? "[" : ",") + of(n.operands[k], Level::either);
    return n.count() == 0 ? text : text + "]";
  }

  static std::string constant(const Node& n, Level& level) {
    if (n.type == Type::boolean) return n.bits != 0 ? "true" : "false";
    std::string text = n.type == Type::integer ? fmt::format("{}", std::bit_cast<std::int32_t>(n.bits))
                                               : text_of_real(std::bit_cast<float>(n.bits));
    if (text == "inf-inf")
      level = Level::sum;
    else if (text.front() == '-')
      level = Level::prefix;
    return text;
  }

  std::string operation(const Node& n, Level& level) {
    const OperationInfo& row = info(n.operation());
    if (row.level == Level::call) {
      std::string text(row.text);
      for (int k = 0; k < n.count(); ++k) text += (k == 0 ? "(" : ",") + of(n.operands[k], Level::either);
      return text + ")";
    }
    level = row.level;
    if (row.operands == 1) return std::string(row.text) + operand_of_prefix(n.operands[0]);
    // Operators of a level are taken from left to right; comparisons do not chain.
    const Level tighter = static_cast<Level>(static_cast<int>(level) + 1);
    const std::string left = of(n.operands[0], level == Level::comparison ? tighter : level);
    return left + std::string(row.text) + of(n.operands[1], tighter);
  }
  /// -2 would be read as a number, and --2 is 2.
  std::string operand_of_prefix(NodeIndex i) {
    const std::string text = of(i, Level::prefix);
    const bool number = (text.front() >= '0' && text.front() <= '9') || text.front() == '.',
               negative = node(i).kind == Kind::constant && text.front() == '-';
    return number || negative ? "(" + text + ")" : text;
  }

  /// a, c, d, …, without the letters and words that have a meaning.
  std::string next_name() {
    while (true) {
      std::string name;
      for (int number = next_++;; number = number / 26 - 1) {
        name.insert(name.begin(), static_cast<char>('a' + number % 26));
        if (number < 26) break;
      }
      if (!is_taken(name)) return name;
    }
  }
  bool is_taken(std::string_view name) const {
    for (const Captured& tensor : function_.tensors)
      if (tensor.name == name) return true;
    return has_meaning(name);
  }

  const Function& function_;
  std::vector<int> uses_;
  std::vector<std::string> names_;
  std::string locals_;
  int next_ = 0;
};

}  // namespace

std::string text_of_real(float x) {
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  if (std::isnan(x)) return "inf-inf";
  std::string text = fmt::format("{}", x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string print(const Function& function) {
  return Printer(function).text();
}

}  // namespace regard::function
