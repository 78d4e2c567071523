#include "engine/result_rows.h"

#include <algorithm>

namespace regard {
namespace {

void mark(std::vector<char>& rows, std::int64_t first, std::int64_t count) {
  const auto end = static_cast<std::size_t>(first + std::max<std::int64_t>(count, 0));
  rows.resize(std::max(rows.size(), end));
  std::fill(rows.begin() + first, rows.begin() + static_cast<std::ptrdiff_t>(end), 1);
}

bool is_marked(const std::vector<char>& rows, std::int64_t row) {
  return row < static_cast<std::int64_t>(rows.size()) && rows[static_cast<std::size_t>(row)] != 0;
}

}  // namespace

ResultRows::ResultRows(const Problem& problem, const regard_arguments& arguments)
    : packed_(problem.varlen), inputs_(problem, arguments), sq_(problem.sq), sk_(problem.sk) {
  if (problem.pass == Pass::append) return;
  for (std::int64_t b = 0; b < problem.b; ++b) {
    const oracle::Sequence& sequence = inputs_.sequence(b);
    mark(queries_, sequence.first_q + (packed_ ? 0 : b * sq_), sequence.sq);
    if (problem.pass == Pass::bwd) mark(keys_, sequence.first_k + (packed_ ? 0 : b * sk_), sequence.sk);
  }
}

bool ResultRows::have(regard_role role, int rank, const ElementIndex& at) const {
  const std::int64_t batch = packed_ ? 0 : at[0];
  switch (role) {
    case REGARD_O:
    case REGARD_GRAD_Q:  // [b,s,h,d] | [t,h,d]
      return is_marked(queries_, batch * sq_ + at[packed_ ? 0 : 1]);
    case REGARD_LSE:
    case REGARD_ROW_MAX:  // [b,h,s] | [h,t]
      return is_marked(queries_, batch * sq_ + at[static_cast<std::size_t>(rank) - 1]);
    case REGARD_GRAD_K:
    case REGARD_GRAD_V:
      return is_marked(keys_, batch * sk_ + at[packed_ ? 0 : 1]);
    case REGARD_GRAD_SINK:
      return true;
    case REGARD_GRAD_BIAS:
    case REGARD_DROPOUT_MASK:
      return inputs_.all_equal();
    default:
      return is_grad_captured(role);
  }
}

}  // namespace regard
