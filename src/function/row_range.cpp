#include "function/row_range.h"

#include <array>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/function/interval.h"

namespace regard::function {
namespace {

/// Sums of the key and other numbers are less than this in magnitude, so that adding a few of them does not
/// wrap. A number that is compared with such a sum is limited to it, which does not change the outcome.
constexpr std::int64_t most_of_sum = 2 * most_in_ranges;
/// Of nodes that are visited: `min`, `max` and `abs` of each other would double them again and again.
constexpr int most_steps = 4096;

/// A condition: the keys from `begin` on, and before `end`; `none` is no limit. Or `row`, which does not
/// depend on the key.
struct Keys {
  NodeIndex begin = none, end = none, row = none;
};

tl::unexpected<Error> several_ranges() {
  return invalid("a row may see several ranges of keys");
}
tl::unexpected<Error> other_condition() {
  return invalid("it is not made of comparisons of the key with numbers that do not depend on it");
}

/// Whether a node depends on the key, and the least and greatest number that it has at any place.
class Places {
 public:
  /// `numbers`: those of the function, or null if they are not known.
  Places(const Tree& tree, const std::vector<Number>* numbers) : tree_(tree), numbers_(numbers) {}

  bool by_key(NodeIndex i) { return of(i).by_key; }
  Interval interval(NodeIndex i) { return of(i).interval; }

 private:
  struct Known {
    bool by_key = false;
    Interval interval{};
  };

  const Known& of(NodeIndex i) {
    const auto at = static_cast<std::size_t>(i);
    if (known_.size() < tree_.nodes().size()) known_.resize(tree_.nodes().size());
    if (!known_[at]) {
      const Known found = find(tree_[i]);
      known_[at] = found;
    }
    return *known_[at];
  }

  Known find(const Node& node) {
    switch (node.kind) {
      case Kind::variable:
        return of_variable(static_cast<Variable>(node.which));
      case Kind::constant:
        return {false, of_bits(node.type, node.bits)};
      case Kind::number:
        if (numbers_ == nullptr || node.which >= numbers_->size()) return {false, any_of(node.type)};
        return {false, of_bits(node.type, (*numbers_)[node.which].bits)};
      case Kind::load:
      case Kind::operation:
        break;
    }
    Known result{false, any_of(node.type)};
    std::array<Interval, 3> operands{};
    for (int k = 0; k < node.count(); ++k) {
      const Known& operand = of(node.operands[static_cast<std::size_t>(k)]);
      result.by_key |= operand.by_key;
      if (node.kind == Kind::operation) operands[static_cast<std::size_t>(k)] = operand.interval;
    }
    if (node.kind == Kind::operation)
      result.interval = of_operation(node.operation(), node.type, tree_[node.operands[0]].type, operands[0],
                                     operands[1], operands[2]);
    return result;
  }

  static Interval of_bits(Type type, std::uint32_t bits) {
    if (type == Type::real) return any_of(type);
    const i64 value = std::bit_cast<std::int32_t>(bits);
    return {value, value};
  }

  static Known of_variable(Variable variable) {
    constexpr i64 last = most_in_ranges - 1;
    switch (variable) {
      case Variable::kv:
        return {true, {0, last}};
      case Variable::q:
        return {false, {0, last}};
      case Variable::p:
        return {false, {-last, last}};
      case Variable::sq:
      case Variable::sk:
        return {false, {0, last}};
      case Variable::s:
      case Variable::tk:
        return {true, any_of(Type::integer)};
      case Variable::b:
      case Variable::h:
      case Variable::hk:
      case Variable::tq:
        break;
    }
    return {false, any_of(Type::integer)};
  }

  const Tree& tree_;
  const std::vector<Number>* numbers_;
  std::vector<std::optional<Known>> known_;
};

class Maker {
 public:
  Maker(const Function& keep, const std::vector<Number>* numbers)
      : function_(keep),
        places_(tree_, nullptr),
        places_of_call_(tree_, numbers),
        checks_(numbers != nullptr) {}

  Result<RowRange> made() {
    Result<Keys> keys = condition(function_.root, false);
    if (!keys) return tl::unexpected(keys.error());
    if (keys->row != none) *keys = chosen(keys->row, Keys{}, nothing());
    RowRange result{{}, keys->begin, keys->end};
    if (result.begin == none) result.begin = constant(0);
    if (result.end == none) result.end = constant(highest);
    function_.root = result.begin;
    result.function = std::move(function_);
    return result;
  }

 private:
  // Operands have the types that the operation takes.
  NodeIndex apply(Operation operation, NodeIndex x) { return *tree_.apply(operation, {x}); }
  NodeIndex apply(Operation operation, NodeIndex x, NodeIndex y) { return *tree_.apply(operation, {x, y}); }
  NodeIndex where(NodeIndex c, NodeIndex x, NodeIndex y) { return *tree_.apply(Operation::where, {c, x, y}); }
  NodeIndex constant(std::int64_t value) { return tree_.constant(static_cast<std::int32_t>(value)); }
  NodeIndex limited(NodeIndex x, std::int64_t least, std::int64_t most) {
    const Interval known = places_.interval(x);
    if (known.low < least) x = apply(Operation::max, x, constant(least));
    return known.high > most ? apply(Operation::min, x, constant(most)) : x;
  }
  NodeIndex limited(NodeIndex x) { return limited(x, -most_of_sum, most_of_sum); }
  NodeIndex next(NodeIndex x) { return apply(Operation::add, limited(x), constant(1)); }
  /// -x + 1
  NodeIndex after_negative(NodeIndex x) { return apply(Operation::subtract, constant(1), limited(x)); }

  Keys nothing() { return {none, constant(0), none}; }
  bool is_nothing(const Keys& keys) { return keys.end != none && places_.interval(keys.end).high <= 0; }
  static bool is_everything(const Keys& keys) {
    return keys.row == none && keys.begin == none && keys.end == none;
  }

  /// The first ones where a condition of the row holds, else the others.
  Keys chosen(NodeIndex row, const Keys& x, const Keys& y) {
    if (x.row != none && y.row != none) return {none, none, where(row, x.row, y.row)};
    if (x.row != none) return chosen(row, chosen(x.row, Keys{}, nothing()), y);
    if (y.row != none) return chosen(row, x, chosen(y.row, Keys{}, nothing()));
    const bool only_begin = (is_nothing(x) && y.end == none) || (is_nothing(y) && x.end == none);
    if (only_begin && (x.begin != none || y.begin != none)) {
      const auto begin = [this](const Keys& keys) {
        return is_nothing(keys) ? constant(highest) : keys.begin == none ? constant(0) : keys.begin;
      };
      return {where(row, begin(x), begin(y)), none, none};
    }
    Keys keys;
    if (is_nothing(x))
      keys.begin = y.begin;
    else if (is_nothing(y))
      keys.begin = x.begin;
    else
      keys.begin = either(row, x.begin, y.begin, 0);
    keys.end = either(row, x.end, y.end, highest);
    return keys;
  }
  NodeIndex either(NodeIndex row, NodeIndex x, NodeIndex y, std::int64_t no_limit) {
    if (x == none && y == none) return none;
    return where(row, x == none ? constant(no_limit) : x, y == none ? constant(no_limit) : y);
  }

  /// The keys that both have.
  Keys both(const Keys& x, const Keys& y) {
    if (x.row != none && y.row != none) return {none, none, apply(Operation::logical_and, x.row, y.row)};
    if (x.row != none) return chosen(x.row, y, nothing());
    if (y.row != none) return chosen(y.row, x, nothing());
    return {joined(Operation::max, x.begin, y.begin), joined(Operation::min, x.end, y.end), none};
  }
  NodeIndex joined(Operation operation, NodeIndex x, NodeIndex y) {
    if (x == none || y == none) return x == none ? y : x;
    return apply(operation, x, y);
  }

  /// The keys that one of them has, if they are one range for all numbers that there may be.
  Result<Keys> any(const Keys& x, const Keys& y) {
    if (x.row != none && y.row != none) return Keys{none, none, apply(Operation::logical_or, x.row, y.row)};
    if (x.row != none) return chosen(x.row, Keys{}, y);
    if (y.row != none) return chosen(y.row, Keys{}, x);
    if (is_everything(x) || is_nothing(y)) return x;
    if (is_everything(y) || is_nothing(x)) return y;
    if (x.begin == y.begin) return Keys{x.begin, wider(Operation::max, x.end, y.end), none};
    if (x.end == y.end) return Keys{wider(Operation::min, x.begin, y.begin), x.end, none};
    return several_ranges();
  }
  NodeIndex wider(Operation operation, NodeIndex x, NodeIndex y) {
    return x == none || y == none ? none : apply(operation, x, y);
  }
  Result<Keys> any(const Result<Keys>& x, const Result<Keys>& y) {
    if (!x || !y) return x ? y : x;
    return any(*x, *y);
  }
  Result<Keys> both(const Result<Keys>& x, const Result<Keys>& y) {
    if (!x || !y) return x ? y : x;
    return both(*x, *y);
  }

  /// The keys for which a condition holds, or, negated, for which it does not.
  Result<Keys> condition(NodeIndex i, bool negated) {
    if (!places_.by_key(i)) return Keys{none, none, negated ? apply(Operation::logical_not, i) : i};
    const Node node = tree_[i];
    if (node.kind != Kind::operation) return other_condition();
    const NodeIndex x = node.operands[0], y = node.operands[1];
    if (tree_[x].type == Type::boolean) {
      switch (node.operation()) {
        case Operation::logical_and:
        case Operation::bit_and:
        case Operation::logical_or:
        case Operation::bit_or: {
          const bool is_and =
              node.operation() == Operation::logical_and || node.operation() == Operation::bit_and;
          const Result<Keys> one = condition(x, negated);
          if (!one) return one;
          return is_and != negated ? both(one, condition(y, negated)) : any(one, condition(y, negated));
        }
        case Operation::logical_not:
        case Operation::bit_not:
          return condition(x, !negated);
        case Operation::where: {
          if (places_.by_key(x)) return other_condition();
          const Result<Keys> one = condition(y, negated), other = condition(node.operands[2], negated);
          if (!one || !other) return one ? other : one;
          return chosen(x, *one, *other);
        }
        default:
          return other_condition();
      }
    }
    if (tree_[x].type != Type::integer) return other_condition();
    return comparison(node.operation(), x, y, negated);
  }

  Result<Keys> comparison(Operation operation, NodeIndex x, NodeIndex y, bool negated) {
    if (places_.by_key(x) && places_.by_key(y)) return other_condition();
    switch (operation) {
      case Operation::less:
        return negated ? at_most(y, x) : below(x, y);
      case Operation::less_equal:
        return negated ? below(y, x) : at_most(x, y);
      case Operation::equal:
      case Operation::not_equal:
        if (places_.by_key(y)) std::swap(x, y);
        if ((operation == Operation::equal) != negated) return both(from(x, y), before(x, next(y)));
        return any(before(x, y), from(x, next(y)));
      default:
        return other_condition();
    }
  }
  /// x < y and x <= y; one of them depends on the key.
  Result<Keys> below(NodeIndex x, NodeIndex y) { return places_.by_key(x) ? before(x, y) : from(y, next(x)); }
  Result<Keys> at_most(NodeIndex x, NodeIndex y) {
    return places_.by_key(x) ? before(x, next(y)) : from(y, x);
  }

  /// The keys where a node is less than `limit`, and where it is not. Nodes that a limit is compared with are
  /// less than most_of_sum in magnitude.
  Result<Keys> before(NodeIndex i, NodeIndex limit) { return side(i, limit, true); }
  Result<Keys> from(NodeIndex i, NodeIndex limit) { return side(i, limit, false); }

  Result<Keys> side(NodeIndex i, NodeIndex limit, bool is_before) {
    if (!places_.by_key(i)) {
      const NodeIndex is_less = apply(Operation::less, i, limit);
      return Keys{none, none, is_before ? is_less : apply(Operation::logical_not, is_less)};
    }
    if (++steps_ > most_steps) return invalid("its range of keys would be too long to write");
    const Node node = tree_[i];
    if (node.kind == Kind::variable && static_cast<Variable>(node.which) == Variable::kv)
      return is_before ? Keys{none, limit, none} : Keys{limit, none, none};
    if (node.kind != Kind::operation) return other_condition();
    const NodeIndex x = node.operands[0], y = node.operands[1];
    if (node.operation() == Operation::floor_divide) return quotient(x, y, 0, limit, is_before);
    if (node.operation() == Operation::shift_right) return quotient(x, y, 1, limit, is_before);
    if (checks_) {
      const Interval sum = places_of_call_.interval(i);
      if (sum.low <= -most_of_sum || sum.high >= most_of_sum)
        return invalid("a sum of the key and another number may wrap");
    }
    switch (node.operation()) {
      case Operation::add:
        return places_.by_key(x) ? sum(x, y, limit, is_before) : sum(y, x, limit, is_before);
      case Operation::subtract:
        return places_.by_key(x) ? difference(x, y, limit, is_before) : opposite(x, y, limit, is_before);
      case Operation::negate:
        return side(x, after_negative(limit), !is_before);
      case Operation::min:
      case Operation::max: {
        const Result<Keys> one = side(x, limit, is_before), other = side(y, limit, is_before);
        return (node.operation() == Operation::min) == is_before ? any(one, other) : both(one, other);
      }
      case Operation::abs: {
        const Result<Keys> one = side(x, limit, is_before),
                           other = side(x, after_negative(limit), !is_before);
        return is_before ? both(one, other) : any(one, other);
      }
      case Operation::where: {
        if (places_.by_key(x)) return other_condition();
        const Result<Keys> one = side(y, limit, is_before), other = side(node.operands[2], limit, is_before);
        if (!one || !other) return one ? other : one;
        return chosen(x, *one, *other);
      }
      default:
        return other_condition();
    }
  }

  /// x + other < limit and the like, where x depends on the key.
  Result<Keys> sum(NodeIndex x, NodeIndex other, NodeIndex limit, bool is_before) {
    if (places_.by_key(other)) return other_condition();
    return side(x, apply(Operation::subtract, limited(limit), other), is_before);
  }
  /// x - other < limit
  Result<Keys> difference(NodeIndex x, NodeIndex other, NodeIndex limit, bool is_before) {
    if (places_.by_key(other)) return other_condition();
    return side(x, apply(Operation::add, limited(limit), other), is_before);
  }
  /// other - x < limit
  Result<Keys> opposite(NodeIndex other, NodeIndex x, NodeIndex limit, bool is_before) {
    const NodeIndex least = apply(Operation::subtract, other, limited(limit));
    return side(x, apply(Operation::add, least, constant(1)), !is_before);
  }
  /// x // divisor < limit, with the divisor 1 << y for shifts
  Result<Keys> quotient(NodeIndex x, NodeIndex y, int shifts, NodeIndex limit, bool is_before) {
    if (tree_[y].kind != Kind::constant || !places_.by_key(x)) return other_condition();
    std::int64_t divisor = std::bit_cast<std::int32_t>(tree_[y].bits);
    if (shifts != 0) divisor = std::int64_t{1} << (divisor & 31);
    if (divisor < 1 || divisor > most_in_ranges) return other_condition();
    const std::int64_t most = most_of_sum / divisor + 1;
    return side(x, apply(Operation::multiply, limited(limit, -most, most), constant(divisor)), is_before);
  }

  Function function_;
  Tree& tree_ = function_.tree;
  Places places_, places_of_call_;
  bool checks_;
  int steps_ = 0;
};

}  // namespace

Result<RowRange> row_range(const Function& keep, std::span<const Number> numbers) {
  const std::vector<Number> of_call(numbers.begin(), numbers.end());
  return Maker(keep, &of_call).made();
}

Result<RowRange> row_range_of_any_numbers(const Function& keep) {
  return Maker(keep, nullptr).made();
}

}  // namespace regard::function
