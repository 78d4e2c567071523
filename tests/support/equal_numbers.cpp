#include "support/equal_numbers.h"

#include <algorithm>
#include <cmath>

#include "oracle/number.h"

namespace regard::test {
namespace {

using Number = std::optional<double>;
using I = std::int64_t;

oracle::Format format_of(const Problem& p) {
  return oracle::format(static_cast<regard_dtype>(p.dtype));
}

bool is(regard_role role, std::initializer_list<regard_role> roles) {
  return std::ranges::find(roles, role) != roles.end();
}

}  // namespace

std::span<const Numbers> equal_numbers() {
  static constexpr Numbers table[] = {
      {"dO is 1",
       [](const Problem&, regard_role role, I, I) -> Number {
         return role == REGARD_GRAD_O ? Number(1) : std::nullopt;
       }},
      {"rows of V are equal",
       [](const Problem&, regard_role role, I, I column) -> Number {
         return role == REGARD_V ? Number(std::sin(static_cast<double>(column + 1))) : std::nullopt;
       }},
      {"rows of Q and of K are equal",
       [](const Problem&, regard_role role, I, I column) -> Number {
         return is(role, {REGARD_Q, REGARD_K}) ? Number(std::sin(static_cast<double>(column + 1)))
                                               : std::nullopt;
       }},
      {"rows of all are equal",
       [](const Problem&, regard_role role, I, I column) -> Number {
         return std::sin(static_cast<double>((column + 1) * (role + 2)));
       }},
      {"all are positive",
       [](const Problem&, regard_role, I row, I column) -> Number {
         return 1.5 + std::sin(static_cast<double>(37 * row + column));
       }},
      {"all are 0.1", [](const Problem&, regard_role, I, I) -> Number { return 0.1; }},
      {"all are 0.7, one key has a little more",
       [](const Problem& p, regard_role role, I row, I) -> Number {
         return role == REGARD_K && row == p.sk / 3 ? 0.9 : 0.7;
       }},
      {"all are 0.1, one key has all the weight",
       [](const Problem& p, regard_role role, I row, I) -> Number {
         const bool giant = row == p.sk / 3;
         if (role == REGARD_Q) return 4 / std::sqrt(static_cast<double>(p.d));
         if (role == REGARD_K) return giant ? 4 : 0.1;
         return role == REGARD_V && giant ? 0 : 0.1;
       }},
      {"signs alternate by rows",
       [](const Problem&, regard_role role, I row, I) -> Number {
         return is(role, {REGARD_V, REGARD_GRAD_O}) ? (row % 2 == 0 ? 0.1 : -0.07) : 0.1;
       }},
      {"signs alternate by columns",
       [](const Problem&, regard_role, I, I column) -> Number { return column % 2 == 0 ? 0.1 : -0.07; }},
      {"the second half is negative",
       [](const Problem& p, regard_role role, I row, I column) -> Number {
         const bool half = role == REGARD_V        ? row >= p.sk / 2
                           : role == REGARD_GRAD_O ? row >= p.sq / 2
                                                   : column >= p.d / 2;
         return half ? -0.07 : 0.1;
       }},
      {"scores are huge",
       [](const Problem& p, regard_role role, I, I) -> Number {
         return is(role, {REGARD_Q, REGARD_K}) ? (p.dtype == DType::fp16 ? 100.0 : 3000.0) : 0.3;
       }},
      // The sum of a row's V stays finite, as semantics.md requires, and so does O when weights are dropped.
      {"V is huge",
       [](const Problem& p, regard_role role, I, I) -> Number {
         const double most = 0.5 * oracle::format(REGARD_FP32).largest() / static_cast<double>(p.sk);
         return role == REGARD_V        ? std::min(0.9 * (1 - p.dropout) * format_of(p).largest(), most)
                : role == REGARD_GRAD_O ? 1e-3
                                        : 0.1;
       }},
      {"V and dO are tiny",
       [](const Problem& p, regard_role role, I, I) -> Number {
         return role == REGARD_V        ? 40 * format_of(p).floor()
                : role == REGARD_GRAD_O ? 60 * format_of(p).floor()
                                        : 0.1;
       }},
      {"V and dO are small",
       [](const Problem& p, regard_role role, I, I) -> Number {
         return is(role, {REGARD_V, REGARD_GRAD_O}) ? (p.dtype == DType::fp16 ? 1e-4 : 0x1p-110) : 0.1;
       }},
      {"all are tiny",
       [](const Problem& p, regard_role, I, I) -> Number { return 30 * format_of(p).floor(); }},
  };
  return table;
}

}  // namespace regard::test
