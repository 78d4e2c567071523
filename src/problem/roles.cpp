// The roles of tensors, declared once: name, when a problem uses it, dtype and shape.
#include <algorithm>
#include <bit>

#include "base/nearest.h"
#include "base/text.h"
#include "function/parse.h"
#include "problem/functions.h"
#include "problem/tensors.h"

namespace regard {
namespace {

using Shape = Dimensions;

regard_use input_if(bool used) {
  return used ? REGARD_INPUT : REGARD_UNUSED;
}
regard_use output_if(bool used) {
  return used ? REGARD_OUTPUT : REGARD_UNUSED;
}
regard_use optional_if(bool used) {
  return used ? REGARD_OPTIONAL_INPUT : REGARD_UNUSED;
}
bool forward(const Problem& p) {
  return p.pass == Pass::fwd;
}
bool backward(const Problem& p) {
  return p.pass == Pass::bwd;
}
bool merges(const Problem& p) {
  return p.pass == Pass::merge;
}

/// A product that stays at the largest number instead of wrapping; validate() refuses such problems.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
std::int64_t query_tokens(const Problem& p) {
  return p.tq != 0 ? p.tq : product(p.b, p.sq);
}
std::int64_t key_tokens(const Problem& p) {
  return p.tk != 0 ? p.tk : product(p.b, p.sk);
}

Shape query_rows(const Problem& p, std::int64_t dim) {
  return p.varlen ? Shape{query_tokens(p), p.hq, dim} : Shape{p.b, p.sq, p.hq, dim};
}
std::int64_t most_pages_in_use(const Problem& p) {
  return product(p.b, ceil_div(p.sk, p.paged));
}
std::int64_t pages(const Problem& p) {
  return p.pages != 0 ? p.pages : most_pages_in_use(p);
}
/// Elements in the 16 bytes that vectorized pages keep together.
std::int64_t elements_together(const Problem& p) {
  return 16 / static_cast<std::int64_t>(bytes_of(p.kv));
}

Shape key_rows(const Problem& p, std::int64_t dim) {
  if (p.paged > 0) return {pages(p), p.paged, p.hk, dim};
  if (packs_keys(p)) return {key_tokens(p), p.hk, dim};
  return {p.cache != 0 ? p.cache : p.b, p.sk, p.hk, dim};
}

Shape like_q(const Problem& p) {
  return query_rows(p, p.d);
}
Shape like_k(const Problem& p) {
  const std::int64_t x = elements_together(p);
  return is_vectorized(p) ? Shape{pages(p), p.hk, p.d / x, product(p.paged, x)}
                          : key_rows(p, columns_of_k(p));
}
Shape k_rope_shape(const Problem& p) {
  return key_rows(p, p.d - p.dv);
}
Shape like_v(const Problem& p) {
  const std::int64_t x = elements_together(p);
  return is_vectorized(p) ? Shape{pages(p), p.hk, p.paged / x, product(p.dv, x)} : key_rows(p, p.dv);
}
Shape new_rows(const Problem& p, std::int64_t dim) {
  return packs_new(p) ? Shape{p.tnew, p.hk, dim} : Shape{p.b, p.snew, p.hk, dim};
}
Shape new_keys(const Problem& p) {
  return new_rows(p, p.d);
}
Shape new_values(const Problem& p) {
  return new_rows(p, p.dv);
}
Shape new_tokens(const Problem& p) {
  return {p.tnew};
}
Shape positions_shape(const Problem& p) {
  if (p.positions == Positions::sequence) return {p.b};
  return packs_new(p) ? Shape{p.tnew} : Shape{p.b, p.snew};
}
Shape rope_shape(const Problem& p) {
  return {rope_rows(p), p.rotary / 2};
}
Shape partial_o_shape(const Problem& p) {
  return {p.parts, query_tokens(p), p.hq, p.dv};
}
Shape partial_lse_shape(const Problem& p) {
  return {p.parts, p.hq, query_tokens(p)};
}
Shape page_table_shape(const Problem& p) {
  return {p.b, p.paged > 0 ? ceil_div(p.sk, p.paged) : 0};
}
Shape page_list_shape(const Problem& p) {
  return {p.paged > 0 ? most_pages_in_use(p) : 0};
}
Shape like_o(const Problem& p) {
  return query_rows(p, p.dv);
}
Shape lse_shape(const Problem& p) {
  return p.varlen ? Shape{p.hq, query_tokens(p)} : Shape{p.b, p.hq, p.sq};
}
Shape bias_shape(const Problem& p) {
  return {has_batches(p.bias) ? p.b : 1, has_heads(p.bias) ? p.hq : 1, p.sq, p.sk};
}
Shape alibi_shape(const Problem& p) {
  return p.bias == Bias::alibi_batch ? Shape{p.b, p.hq} : Shape{p.hq};
}
Shape per_head(const Problem& p) {
  return {p.hq};
}
Shape per_sequence(const Problem& p) {
  return {p.b};
}
Shape sequence_bounds(const Problem& p) {
  return {p.b + 1};
}
Shape ranges_shape(const Problem& p) {
  return p.varlen ? Shape{query_tokens(p), 2} : Shape{p.b, p.sq, 2};
}
Shape bits_shape(const Problem& p) {
  return {p.b, p.hq, p.sq, ceil_div(p.sk, 32)};
}
Shape dropout_mask_shape(const Problem& p) {
  return p.varlen ? Shape{p.hq, query_tokens(p), p.sk} : Shape{p.b, p.hq, p.sq, p.sk};
}
Shape descale_q_shape(const Problem& p) {
  return p.descale == Descale::head ? Shape{p.b, p.hk} : Shape{1};
}
Shape descale_keys_shape(const Problem& p) {
  switch (p.descale) {
    case Descale::head:
      return {p.b, p.hk};
    case Descale::page:
      return {p.paged > 0 ? pages(p) : 0, p.hk};
    case Descale::token: {
      const Shape rows = key_rows(p, 1);
      return rows.size() == 4 ? Shape{rows[0], rows[1], rows[2]} : Shape{rows[0], rows[1]};
    }
    case Descale::columns:
      return key_rows(p, p.dv / factor_columns);
    default:
      return {1};
  }
}
Shape pair_shape(const Problem&) {
  return {2};
}

regard_dtype in_dtype(const Problem& p) {
  return c_dtype(p.dtype);
}
regard_dtype keys_dtype(const Problem& p) {
  return c_dtype(p.kv);
}
regard_dtype k_rope_dtype(const Problem& p) {
  return has_wide_k_rope(p) ? in_dtype(p) : keys_dtype(p);
}
regard_dtype rope_dtype(const Problem& p) {
  return c_dtype(p.rope_type);
}
regard_dtype slots_dtype(const Problem& p) {
  return p.slots == SlotType::int64 ? REGARD_INT64 : REGARD_INT32;
}
regard_dtype out_dtype(const Problem& p) {
  return c_dtype(p.out);
}
regard_dtype bias_dtype(const Problem& p) {
  return c_dtype(p.bias_type);
}
template <regard_dtype dtype>
regard_dtype always(const Problem&) {
  return dtype;
}

bool attends(const Problem& p) {
  return forward(p) || backward(p);
}
regard_use use_q(const Problem& p) {
  return input_if(attends(p));
}
regard_use use_keys(const Problem& p) {
  return writes_cache(p) ? REGARD_INPUT_OUTPUT : input_if(attends(p));
}
regard_use use_values(const Problem& p) {
  return p.latent ? REGARD_UNUSED : use_keys(p);
}
regard_use use_k_rope(const Problem& p) {
  return p.k_rope ? use_keys(p) : REGARD_UNUSED;
}
regard_use use_new_keys(const Problem& p) {
  return input_if(writes_cache(p));
}
regard_use use_new_values(const Problem& p) {
  return p.latent ? REGARD_UNUSED : use_new_keys(p);
}
regard_use use_rope(const Problem& p) {
  return input_if(p.rope != Rope::none);
}
regard_use use_cache_index(const Problem& p) {
  return optional_if(p.cache > 0 && p.slots == SlotType::none);
}
/// Slots say where new tokens go without a table.
bool pages_by(const Problem& p, PageTable table) {
  return p.paged > 0 && p.table == table && p.slots == SlotType::none;
}
regard_use use_page_table(const Problem& p) {
  return input_if(pages_by(p, PageTable::vllm));
}
regard_use use_page_list(const Problem& p) {
  return input_if(pages_by(p, PageTable::sglang));
}
regard_use use_o(const Problem& p) {
  if (p.accumulate) return REGARD_INPUT_OUTPUT;
  return forward(p) || merges(p) ? REGARD_OUTPUT : input_if(backward(p));
}
regard_use use_lse(const Problem& p) {
  if (p.accumulate) return REGARD_INPUT_OUTPUT;
  return backward(p) ? REGARD_INPUT : output_if(p.lse);
}
regard_use use_partial(const Problem& p) {
  return input_if(merges(p));
}
regard_use use_grad_o(const Problem& p) {
  return input_if(backward(p));
}
regard_use use_grad_lse(const Problem& p) {
  return input_if(p.dlse);
}
regard_use use_grad(const Problem& p) {
  return output_if(backward(p));
}
regard_use use_bias(const Problem& p) {
  return input_if(has_elementwise_bias(p.bias));
}
regard_use use_grad_bias(const Problem& p) {
  return output_if(p.dbias);
}
regard_use use_alibi(const Problem& p) {
  return input_if(has_alibi(p.bias));
}
regard_use use_sink(const Problem& p) {
  return input_if(p.sink);
}
regard_use use_grad_sink(const Problem& p) {
  return output_if(p.sink && backward(p));
}
regard_use use_offsets_q(const Problem& p) {
  return input_if(p.varlen);
}
regard_use use_offsets_k(const Problem& p) {
  return input_if(attends(p) && packs_keys(p));
}
regard_use use_lengths_q(const Problem& p) {
  return optional_if(p.lengths && p.pass != Pass::append);
}
/// A list of pages says how long each sequence is.
regard_use use_lengths_k(const Problem& p) {
  return optional_if(p.lengths && !pages_by(p, PageTable::sglang));
}
regard_use use_ranges(const Problem& p) {
  return input_if(p.ranges);
}
regard_use use_bits(const Problem& p) {
  return input_if(p.bits);
}
regard_use use_row_max(const Problem& p) {
  return output_if(p.row_max);
}
regard_use use_dropout_mask(const Problem& p) {
  return output_if(p.dropout_mask);
}
regard_use use_descale_q(const Problem& p) {
  return input_if(p.descale != Descale::none && attends(p) && bytes_of(p.dtype) == 1);
}
regard_use use_descale_keys(const Problem& p) {
  if (has_factors_of_tokens(p) && writes_cache(p)) return REGARD_INPUT_OUTPUT;
  return input_if(p.descale != Descale::none);
}
regard_use use_descale_values(const Problem& p) {
  return p.latent ? REGARD_UNUSED : use_descale_keys(p);
}
regard_use use_offsets_new(const Problem& p) {
  return input_if(packs_new(p) && p.slots == SlotType::none);
}
regard_use use_slots(const Problem& p) {
  return input_if(p.slots != SlotType::none);
}
regard_use use_positions(const Problem& p) {
  return input_if(p.positions != Positions::length);
}
regard_use use_left_padding(const Problem& p) {
  return input_if(p.left_padding);
}
regard_use use_seed(const Problem& p) {
  return optional_if(p.dropout > 0);
}

std::vector<function::Captured> captured_tensors(const Problem& p) {
  if (p.tensors.empty()) return {};
  return function::parse_tensors(p.tensors.view()).value_or(std::vector<function::Captured>());
}
template <int index>
regard_use use_captured(const Problem& p) {
  return input_if(index < std::ssize(captured_tensors(p)));
}
template <int index>
regard_use use_grad_captured(const Problem& p) {
  if (p.grads.empty()) return REGARD_UNUSED;
  const std::vector<function::Captured> tensors = captured_tensors(p);
  const std::vector<std::string_view> names = split(p.grads.view(), ",");
  const bool named =
      index < std::ssize(tensors) && std::ranges::find(names, tensors[index].name) != names.end();
  return output_if(named && backward(p));
}
template <int index>
regard_dtype captured_dtype(const Problem& p) {
  const std::vector<function::Captured> tensors = captured_tensors(p);
  if (index >= std::ssize(tensors)) return REGARD_FP32;
  switch (tensors[index].type) {
    case function::Type::boolean:
      return REGARD_UINT8;
    case function::Type::integer:
      return REGARD_INT32;
    default:
      return REGARD_FP32;
  }
}

/// How many elements an index of a tensor reaches, if it is a variable or a small constant.
std::int64_t usual_size(const Problem& p, const function::Node& index) {
  constexpr std::int64_t of_others = 64;
  if (index.kind == function::Kind::constant)
    return std::clamp<std::int64_t>(std::bit_cast<std::int32_t>(index.bits), 0, of_others - 1) + 1;
  if (index.kind != function::Kind::variable) return of_others;
  switch (static_cast<function::Variable>(index.which)) {
    case function::Variable::b:
      return p.b;
    case function::Variable::h:
      return p.hq;
    case function::Variable::hk:
      return p.hk;
    case function::Variable::q:
      return p.sq;
    case function::Variable::kv:
    case function::Variable::p:
      return p.sk;
    case function::Variable::tq:
      return query_tokens(p);
    case function::Variable::tk:
      return key_tokens(p);
    default:
      return of_others;
  }
}

/// Example sizes of a tensor that can have any: those that the functions can read, where an index is a
/// variable or a constant.
template <int index>
Shape captured_shape(const Problem& p) {
  const Result<Functions> functions = functions_of(p);
  if (!functions || index >= std::ssize(functions->tensors)) return {1};
  const int dimensions = functions->tensors[index].dimensions;
  if (dimensions == 0) return {1};
  Shape shape = Shape::of_size(static_cast<std::size_t>(dimensions));
  std::fill_n(shape.data(), dimensions, 1);
  for (const function::Function* f : {&functions->score, &functions->keep}) {
    for (const function::Node& node : f->tree.nodes()) {
      if (node.kind != function::Kind::load || node.which != index) continue;
      for (int i = 0; i < dimensions; ++i) {
        const auto at = static_cast<std::size_t>(i);
        shape[at] = std::max(shape[at], usual_size(p, f->tree[node.operands[i]]));
      }
    }
  }
  return shape;
}

/// In `tensors=`, where every declaration begins with a name.
std::string_view given_name(const Problem& p, regard_role role) {
  if (p.tensors.empty() || (!is_captured(role) && !is_grad_captured(role))) return {};
  const std::vector<std::string_view> declarations = split(p.tensors.view(), ",");
  const auto index = static_cast<std::size_t>(role - captured(0)) % function::most_tensors;
  if (index >= declarations.size()) return {};
  return declarations[index].substr(0, declarations[index].find(':'));
}

/// A role's memory layout where the caller gives no strides, and what the caller can vary.
enum class Kind : std::uint8_t {
  rows,        ///< [b, s, h, d] in the problem's layout; any strides with a contiguous last dimension
  plain,       ///< row-major; any strides with a contiguous last dimension
  broadcast,   ///< plain, and some dimensions can be 1
  contiguous,  ///< row-major without gaps
  list,        ///< contiguous, and can be shorter
  strided,     ///< row-major; any strides, that of the last dimension too
  factors,     ///< strided, and the first dimension can be 1
  captured,    ///< strided, of any sizes
  gradient,    ///< plain, with the sizes of the tensor that it is the gradient of
};

struct Role {
  regard_role role;
  std::string_view name;
  regard_use (*use)(const Problem&);
  regard_dtype (*dtype)(const Problem&);
  Shape (*shape)(const Problem&);
  Kind kind;
};

constexpr Role roles[] = {
    {REGARD_Q, "q", use_q, in_dtype, like_q, Kind::rows},
    {REGARD_K, "k", use_keys, keys_dtype, like_k, Kind::rows},
    {REGARD_V, "v", use_values, keys_dtype, like_v, Kind::rows},
    {REGARD_O, "o", use_o, out_dtype, like_o, Kind::rows},
    {REGARD_LSE, "lse", use_lse, always<REGARD_FP32>, lse_shape, Kind::plain},
    {REGARD_GRAD_O, "grad_o", use_grad_o, out_dtype, like_o, Kind::rows},
    {REGARD_GRAD_Q, "grad_q", use_grad, in_dtype, like_q, Kind::rows},
    {REGARD_GRAD_K, "grad_k", use_grad, in_dtype, like_k, Kind::rows},
    {REGARD_GRAD_V, "grad_v", use_grad, in_dtype, like_v, Kind::rows},
    {REGARD_BIAS, "bias", use_bias, bias_dtype, bias_shape, Kind::broadcast},
    {REGARD_GRAD_BIAS, "grad_bias", use_grad_bias, bias_dtype, bias_shape, Kind::plain},
    {REGARD_ALIBI, "alibi", use_alibi, always<REGARD_FP32>, alibi_shape, Kind::contiguous},
    {REGARD_SINK, "sink", use_sink, always<REGARD_FP32>, per_head, Kind::contiguous},
    {REGARD_GRAD_SINK, "grad_sink", use_grad_sink, always<REGARD_FP32>, per_head, Kind::contiguous},
    {REGARD_OFFSETS_Q, "offsets_q", use_offsets_q, always<REGARD_INT32>, sequence_bounds, Kind::contiguous},
    {REGARD_OFFSETS_K, "offsets_k", use_offsets_k, always<REGARD_INT32>, sequence_bounds, Kind::contiguous},
    {REGARD_LENGTHS_Q, "lengths_q", use_lengths_q, always<REGARD_INT32>, per_sequence, Kind::contiguous},
    {REGARD_LENGTHS_K, "lengths_k", use_lengths_k, always<REGARD_INT32>, per_sequence, Kind::contiguous},
    {REGARD_RANGES, "ranges", use_ranges, always<REGARD_INT32>, ranges_shape, Kind::broadcast},
    {REGARD_BITS, "bits", use_bits, always<REGARD_UINT32>, bits_shape, Kind::broadcast},
    {REGARD_DROPOUT_MASK, "dropout_mask", use_dropout_mask, always<REGARD_UINT8>, dropout_mask_shape,
     Kind::plain},
    {REGARD_DESCALE_Q, "descale_q", use_descale_q, always<REGARD_FP32>, descale_q_shape, Kind::factors},
    {REGARD_DESCALE_K, "descale_k", use_descale_keys, always<REGARD_FP32>, descale_keys_shape, Kind::factors},
    {REGARD_DESCALE_V, "descale_v", use_descale_values, always<REGARD_FP32>, descale_keys_shape,
     Kind::factors},
    {REGARD_SEED, "seed", use_seed, always<REGARD_UINT64>, pair_shape, Kind::contiguous},
    {REGARD_K_NEW, "k_new", use_new_keys, in_dtype, new_keys, Kind::rows},
    {REGARD_V_NEW, "v_new", use_new_values, in_dtype, new_values, Kind::rows},
    {REGARD_ROPE_COS, "rope_cos", use_rope, rope_dtype, rope_shape, Kind::plain},
    {REGARD_ROPE_SIN, "rope_sin", use_rope, rope_dtype, rope_shape, Kind::plain},
    {REGARD_CACHE_INDEX, "cache_index", use_cache_index, always<REGARD_INT32>, per_sequence,
     Kind::contiguous},
    {REGARD_PAGE_TABLE, "page_table", use_page_table, always<REGARD_INT32>, page_table_shape, Kind::plain},
    {REGARD_PAGE_OFFSETS, "page_offsets", use_page_list, always<REGARD_INT32>, sequence_bounds,
     Kind::contiguous},
    {REGARD_PAGE_LIST, "page_list", use_page_list, always<REGARD_INT32>, page_list_shape, Kind::list},
    {REGARD_LAST_PAGE_LENGTHS, "last_page_lengths", use_page_list, always<REGARD_INT32>, per_sequence,
     Kind::contiguous},
    {REGARD_OFFSETS_NEW, "offsets_new", use_offsets_new, always<REGARD_INT32>, sequence_bounds,
     Kind::contiguous},
    {REGARD_SLOTS, "slots", use_slots, slots_dtype, new_tokens, Kind::contiguous},
    {REGARD_POSITIONS, "positions", use_positions, always<REGARD_INT32>, positions_shape, Kind::plain},
    {REGARD_LEFT_PADDING, "left_padding", use_left_padding, always<REGARD_INT32>, per_sequence,
     Kind::contiguous},
    {REGARD_PARTIAL_O, "partial_o", use_partial, in_dtype, partial_o_shape, Kind::plain},
    {REGARD_PARTIAL_LSE, "partial_lse", use_partial, always<REGARD_FP32>, partial_lse_shape, Kind::strided},
    {REGARD_GRAD_LSE, "grad_lse", use_grad_lse, always<REGARD_FP32>, lse_shape, Kind::plain},
    {REGARD_K_ROPE, "k_rope", use_k_rope, k_rope_dtype, k_rope_shape, Kind::rows},
    {REGARD_CAPTURED_0, "captured_0", use_captured<0>, captured_dtype<0>, captured_shape<0>, Kind::captured},
    {REGARD_CAPTURED_1, "captured_1", use_captured<1>, captured_dtype<1>, captured_shape<1>, Kind::captured},
    {REGARD_CAPTURED_2, "captured_2", use_captured<2>, captured_dtype<2>, captured_shape<2>, Kind::captured},
    {REGARD_CAPTURED_3, "captured_3", use_captured<3>, captured_dtype<3>, captured_shape<3>, Kind::captured},
    {REGARD_CAPTURED_4, "captured_4", use_captured<4>, captured_dtype<4>, captured_shape<4>, Kind::captured},
    {REGARD_CAPTURED_5, "captured_5", use_captured<5>, captured_dtype<5>, captured_shape<5>, Kind::captured},
    {REGARD_CAPTURED_6, "captured_6", use_captured<6>, captured_dtype<6>, captured_shape<6>, Kind::captured},
    {REGARD_CAPTURED_7, "captured_7", use_captured<7>, captured_dtype<7>, captured_shape<7>, Kind::captured},
    {REGARD_GRAD_CAPTURED_0, "grad_captured_0", use_grad_captured<0>, always<REGARD_FP32>, captured_shape<0>,
     Kind::gradient},
    {REGARD_GRAD_CAPTURED_1, "grad_captured_1", use_grad_captured<1>, always<REGARD_FP32>, captured_shape<1>,
     Kind::gradient},
    {REGARD_GRAD_CAPTURED_2, "grad_captured_2", use_grad_captured<2>, always<REGARD_FP32>, captured_shape<2>,
     Kind::gradient},
    {REGARD_GRAD_CAPTURED_3, "grad_captured_3", use_grad_captured<3>, always<REGARD_FP32>, captured_shape<3>,
     Kind::gradient},
    {REGARD_GRAD_CAPTURED_4, "grad_captured_4", use_grad_captured<4>, always<REGARD_FP32>, captured_shape<4>,
     Kind::gradient},
    {REGARD_GRAD_CAPTURED_5, "grad_captured_5", use_grad_captured<5>, always<REGARD_FP32>, captured_shape<5>,
     Kind::gradient},
    {REGARD_GRAD_CAPTURED_6, "grad_captured_6", use_grad_captured<6>, always<REGARD_FP32>, captured_shape<6>,
     Kind::gradient},
    {REGARD_GRAD_CAPTURED_7, "grad_captured_7", use_grad_captured<7>, always<REGARD_FP32>, captured_shape<7>,
     Kind::gradient},
    {REGARD_ROW_MAX, "row_max", use_row_max, always<REGARD_FP32>, lse_shape, Kind::plain},
};
static_assert(std::size(roles) == REGARD_ROLE_COUNT);
constexpr bool roles_are_in_order() {
  for (std::size_t i = 0; i < std::size(roles); ++i) {
    if (roles[i].role != static_cast<regard_role>(i)) return false;
  }
  return true;
}
static_assert(roles_are_in_order());

/// Dimensions from the outermost in memory to the innermost.
using Order = std::array<std::size_t, 4>;

Order memory_order(const Problem& p, const Role& role, std::size_t rank) {
  const bool vectorized = (role.role == REGARD_K || role.role == REGARD_V) && is_vectorized(p);
  if (role.kind == Kind::rows && rank == 4 && !vectorized) {
    if (p.layout == Layout::bhsd) return {0, 2, 1, 3};
    if (p.layout == Layout::sbhd) return {1, 0, 2, 3};
  }
  return {0, 1, 2, 3};
}

Shape strides_in_order(const Shape& shape, const Order& order) {
  Shape strides = Shape::of_size(shape.size());
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[order[i]] = next;
    next = product(next, std::max<std::int64_t>(shape[order[i]], 1));
  }
  return strides;
}

/// The leading dimensions of ranges [b, sq, 2] and bits [b, hq, sq, words] can be 1. Those of a bias are set
/// by words of the problem, as its gradient has them as well; it can have one row for all queries.
std::array<bool, 4> broadcast_dimensions(const Problem& p, const Role& role) {
  if (role.kind == Kind::factors) return {p.descale == Descale::head};
  if (role.kind != Kind::broadcast) return {};
  if (role.role == REGARD_RANGES) return {!p.varlen};
  return {role.role == REGARD_BITS, role.role == REGARD_BITS, true};
}

}  // namespace

std::string_view role_name(regard_role role) {
  const auto index = static_cast<std::size_t>(role);
  return index < std::size(roles) ? roles[index].name : std::string_view{};
}

Result<regard_role> role_from_name(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Role& role : roles) {
    if (role.name == name) return role.role;
    names.push_back(role.name);
  }
  return invalid("unknown tensor " + in_quotes(name) + suggestion(name, names));
}

std::string label(const TensorSpec& spec) {
  if (spec.given_name.empty()) return std::string(spec.name);
  const std::string role = " (" + std::string(spec.name) + ")";
  return (spec.name.starts_with("grad") ? "gradient of " : "") + std::string(spec.given_name) + role;
}

TensorSpec tensor_spec(const Problem& problem, regard_role requested) {
  TensorSpec spec;
  spec.role = requested;
  spec.name = role_name(requested);
  if (spec.name.empty()) return spec;
  spec.given_name = given_name(problem, requested);
  const Role& role = roles[static_cast<std::size_t>(requested)];
  spec.use = role.use(problem);
  spec.dtype = role.dtype(problem);
  spec.shape = role.shape(problem);
  spec.strides = strides_in_order(spec.shape, memory_order(problem, role, spec.shape.size()));
  spec.broadcast = broadcast_dimensions(problem, role);
  spec.shorter = role.kind == Kind::list;
  spec.contiguous = role.kind == Kind::contiguous || spec.shorter;
  spec.any_sizes = role.kind == Kind::captured || role.kind == Kind::gradient;
  spec.any_strides = role.kind == Kind::strided || role.kind == Kind::captured ||
                     (role.kind == Kind::factors && problem.descale != Descale::columns);
  return spec;
}

TensorSpecs tensor_specs(const Problem& problem) {
  TensorSpecs specs;
  for (const Role& role : roles) {
    specs.of[role.role] = tensor_spec(problem, role.role);
    if (specs.of[role.role].use != REGARD_UNUSED) specs.used |= Roles{1} << role.role;
    if (is_written(specs.of[role.role].use)) specs.written |= Roles{1} << role.role;
  }
  return specs;
}

regard_use tensor_use(const Problem& problem, regard_role role) {
  const auto index = static_cast<std::size_t>(role);
  return index < std::size(roles) ? roles[index].use(problem) : REGARD_UNUSED;
}

std::size_t bytes_of(regard_dtype dtype) {
  switch (dtype) {
    case REGARD_FP32:
    case REGARD_INT32:
    case REGARD_UINT32:
      return 4;
    case REGARD_BF16:
    case REGARD_FP16:
      return 2;
    case REGARD_FP8:
    case REGARD_FP8_E5M2:
    case REGARD_FP8_FNUZ:
    case REGARD_FP8_E5M2_FNUZ:
    case REGARD_INT8:
    case REGARD_UINT8:
      return 1;
    case REGARD_UINT64:
    case REGARD_INT64:
      return 8;
  }
  return 0;
}

std::string_view word(regard_dtype dtype) {
  switch (dtype) {
    case REGARD_INT32:
      return "int32";
    case REGARD_UINT32:
      return "uint32";
    case REGARD_UINT8:
      return "uint8";
    case REGARD_UINT64:
      return "uint64";
    case REGARD_INT64:
      return "int64";
    default:
      return word(static_cast<DType>(dtype));
  }
}

regard_dtype c_dtype(DType dtype) {
  return static_cast<regard_dtype>(dtype);  // the same values (checked by a test)
}

}  // namespace regard
