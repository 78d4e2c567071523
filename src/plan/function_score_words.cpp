#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "plan/function_forms.h"
#include "plan/function_sums.h"

namespace regard {
namespace {

using function::Function;
using function::Kind;
using function::Node;
using function::NodeIndex;
using function::Operation;
using function::Variable;

bool is(const Function& f, NodeIndex index, Operation operation) {
  return f.tree[index].kind == Kind::operation && f.tree[index].operation() == operation;
}

bool is(const Function& f, NodeIndex index, Variable variable) {
  return f.tree[index].kind == Kind::variable && f.tree[index].which == static_cast<int>(variable);
}

/// cap * tanh(s / cap), or s.
bool set_cap(const Function& f, NodeIndex index, Problem& words) {
  if (is(f, index, Variable::s)) return true;
  if (!is(f, index, Operation::multiply)) return false;
  const auto& [x, y, unused, none] = f.tree[index].operands;
  for (const auto& [tanh, cap] : {std::pair(x, y), std::pair(y, x)}) {
    if (!is(f, tanh, Operation::tanh) || f.tree[cap].kind != Kind::constant) continue;
    const NodeIndex quotient = f.tree[tanh].operands[0];
    if (!is(f, quotient, Operation::divide)) continue;
    const auto& operands = f.tree[quotient].operands;
    if (!is(f, operands[0], Variable::s) || operands[1] != cap) continue;
    words.softcap = std::bit_cast<float>(f.tree[cap].bits);
    return words.softcap > 0 && validate(words).has_value();
  }
  return false;
}

/// A number of a tensor times a distance, which is the only part that is not a load.
struct Product {
  bool negative = false;
  NodeIndex load = function::none, distance = function::none;
};

bool add_factors(const Function& f, NodeIndex index, Product& product) {
  const Node& node = f.tree[index];
  if (node.kind == Kind::load) return std::exchange(product.load, index) == function::none;
  if (node.kind == Kind::constant) {
    product.negative ^= std::bit_cast<float>(node.bits) < 0;
    return std::fabs(std::bit_cast<float>(node.bits)) == 1;
  }
  if (node.kind != Kind::operation) return false;
  switch (node.operation()) {
    case Operation::negate:
      product.negative = !product.negative;
      return add_factors(f, node.operands[0], product);
    case Operation::multiply:
      return add_factors(f, node.operands[0], product) && add_factors(f, node.operands[1], product);
    case Operation::to_real:
    case Operation::abs:
      return std::exchange(product.distance, index) == function::none;
    default:
      return false;
  }
}

/// The lengths of a sequence are those of the problem.
bool has_fixed_lengths(const Problem& p) {
  return !p.varlen && !p.lengths && !is_cache(p) && !p.left_padding;
}

PlaceSum with_lengths(PlaceSum sum, const Problem& p) {
  if (!has_fixed_lengths(p)) return sum;
  sum.constant += sum.sq * p.sq + sum.sk * p.sk;
  sum.sq = sum.sk = 0;
  return sum;
}

/// Whether no row sees a key that is after its place p.
bool sees_none_after_p(const Problem& p) {
  const bool causal = p.mask == Mask::causal || p.mask == Mask::causal_top_left;
  const bool window = p.mask == Mask::window || p.mask == Mask::window_top_left;
  if (!causal && !(window && p.window_right == 0)) return false;
  const bool top_left = p.mask == Mask::causal_top_left || p.mask == Mask::window_top_left;
  return !top_left || (has_fixed_lengths(p) && p.sk >= p.sq);  // then q <= p
}

Error no_word() {
  return {ErrorKind::invalid, "no word says score"};
}

/// A load whose indices are variables, or 0: each dimension's variable.
std::optional<std::vector<Variable>> variables_of(const Function& f, const Node& load) {
  constexpr auto zero = Variable::s;  // which is no index
  std::vector<Variable> variables;
  for (int i = 0; i < load.count(); ++i) {
    const Node& index = f.tree[load.operands[static_cast<std::size_t>(i)]];
    const bool is_zero = index.kind == Kind::constant && index.bits == 0;
    if (!is_zero && index.kind != Kind::variable) return {};
    variables.push_back(is_zero ? zero : static_cast<Variable>(index.which));
  }
  return variables;
}

/// The term slope[h] * distance or slope[b,h] * distance, which is added, or subtracted if `negative`.
Result<CapturedAsWord> set_alibi(const Function& f, NodeIndex term, bool negative,
                                 const std::vector<int>& gradients, Problem& words) {
  Product product{negative};
  if (!add_factors(f, term, product) || product.load == function::none || product.distance == function::none)
    return tl::unexpected(no_word());
  bool absolute = false;
  NodeIndex distance = product.distance;
  for (; is(f, distance, Operation::to_real) || is(f, distance, Operation::abs);
       distance = f.tree[distance].operands[0])
    absolute |= is(f, distance, Operation::abs);
  const std::optional<PlaceSum> sum = sum_of(f, distance);
  if (!sum) return tl::unexpected(no_word());
  const PlaceSum after = with_lengths(after_p, words), given = with_lengths(*sum, words);
  const bool before = given == PlaceSum{} - after;
  if (given != after && !before) return tl::unexpected(no_word());

  const Node& load = f.tree[product.load];
  const auto variables = variables_of(f, load);
  using Names = std::vector<Variable>;
  const bool of_heads = variables == Names{Variable::h};
  if (!of_heads && variables != Names{Variable::b, Variable::h}) return tl::unexpected(no_word());
  // The word is -slope * |kv - p|.
  const bool falls = absolute ? product.negative : product.negative == before;
  if (!falls) return tl::unexpected(no_word());
  const std::string& name = f.tensors[load.which].name;
  if (!absolute && !sees_none_after_p(words))
    return invalid(fmt::format(
        "{0}*(kv-p) is ALiBi only where no row sees a key after p, as with keep=kv<=p; -{0}*abs(kv-p) always",
        name));
  if (std::ranges::find(gradients, static_cast<int>(load.which)) != gradients.end())
    return invalid(fmt::format("ALiBi as a word has no gradient of {}", name));
  words.bias = of_heads ? Bias::alibi : Bias::alibi_batch;
  return CapturedAsWord{load.which, REGARD_ALIBI, {0, 1, -1, -1}};
}

/// The term bias[b,h,q,kv], also without b, h or q, or with 0 in their place.
Result<CapturedAsWord> set_bias(const Function& f, const Node& load, const std::vector<int>& gradients,
                                Problem& words) {
  CapturedAsWord result{load.which, REGARD_BIAS, {-1, -1, -1, -1}};
  const auto variables = variables_of(f, load);
  if (!variables || load.type != function::Type::real) return tl::unexpected(no_word());
  bool has[4] = {};
  for (std::size_t i = 0; i < variables->size(); ++i) {
    constexpr Variable of_dimensions[] = {Variable::b, Variable::h, Variable::q, Variable::kv};
    if ((*variables)[i] == Variable::s) continue;
    const auto found = std::ranges::find(of_dimensions, (*variables)[i]) - std::begin(of_dimensions);
    if (found == std::ssize(of_dimensions) || std::exchange(has[found], true))
      return tl::unexpected(no_word());
    result.dimensions[i] = static_cast<int>(found);
  }
  const std::string& name = f.tensors[load.which].name;
  if (!has[3]) return invalid(fmt::format("{} is the same for all keys, and no word says that", name));
  const bool learned = std::ranges::find(gradients, static_cast<int>(load.which)) != gradients.end();
  if (learned && !has[2])
    return invalid(
        fmt::format("a bias as a word has no gradient of {}, which is the same for all rows", name));
  words.bias =
      has[0] ? (has[1] ? Bias::batch_head : Bias::batch_one) : (has[1] ? Bias::one_head : Bias::one_one);
  words.bias_type = DType::fp32;
  words.dbias = learned;
  return result;
}

}  // namespace

Result<std::optional<CapturedAsWord>> set_score(const Function& f, const std::vector<int>& gradients,
                                                Problem& words) {
  if (set_cap(f, f.root, words)) return std::nullopt;
  const bool subtracts = is(f, f.root, Operation::subtract);
  if (!subtracts && !is(f, f.root, Operation::add)) return tl::unexpected(no_word());
  NodeIndex first = f.tree[f.root].operands[0], term = f.tree[f.root].operands[1];
  if (!subtracts && !set_cap(f, first, words)) std::swap(first, term);
  if (!set_cap(f, first, words)) return tl::unexpected(no_word());
  const Node& load = f.tree[term];
  const bool elementwise = load.kind == Kind::load && !subtracts;
  Result<CapturedAsWord> tensor =
      elementwise ? set_bias(f, load, gradients, words) : set_alibi(f, term, subtracts, gradients, words);
  if (!tensor) return tl::unexpected(tensor.error());
  return *tensor;
}

}  // namespace regard
