#include "oracle/inputs.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "oracle/number.h"

namespace regard::oracle {

Index index_of(regard_role role, int rank, const std::int64_t* shape, const std::int64_t* strides) {
  const auto broadcast = [&](int dimension) { return shape[dimension] == 1 ? 0 : strides[dimension]; };
  switch (role) {
    case REGARD_Q:
    case REGARD_K:
    case REGARD_V:
    case REGARD_O:
    case REGARD_GRAD_O:
    case REGARD_GRAD_Q:
    case REGARD_GRAD_K:
    case REGARD_GRAD_V:  // [b,s,h,d] | [t,h,d]
      return rank == 4 ? Index{strides[0], strides[2], strides[1]} : Index{0, strides[1], strides[0]};
    case REGARD_LSE:  // [b,h,s] | [h,t]
      return rank == 3 ? Index{strides[0], strides[1], strides[2]} : Index{0, strides[0], strides[1]};
    case REGARD_DROPOUT_MASK:  // [b,h,sq,sk] | [h,t,sk]
      return rank == 4 ? Index{strides[0], strides[1], strides[2]} : Index{0, strides[0], strides[1]};
    case REGARD_BIAS:
    case REGARD_GRAD_BIAS:
    case REGARD_BITS:  // [1|b, 1|h, 1|sq, ...]
      return {broadcast(0), broadcast(1), broadcast(2)};
    case REGARD_RANGES:  // [1|b,sq,2] | [t,2]
      return rank == 3 ? Index{broadcast(0), 0, strides[1]} : Index{0, 0, strides[0]};
    case REGARD_ALIBI:  // [h] | [b,h]
      return rank == 1 ? Index{0, strides[0], 0} : Index{strides[0], strides[1], 0};
    case REGARD_SINK:
    case REGARD_GRAD_SINK:  // [h]
      return {0, strides[0], 0};
    case REGARD_DESCALE_Q:
    case REGARD_DESCALE_K:
    case REGARD_DESCALE_V:  // [1] | [b,hk]
      return rank == 1 ? Index{} : Index{strides[0], strides[1], 0};
    case REGARD_OFFSETS_Q:
    case REGARD_OFFSETS_K:
    case REGARD_LENGTHS_Q:
    case REGARD_LENGTHS_K:  // [b], [b+1]
      return {strides[0], 0, 0};
    case REGARD_SEED:
    case REGARD_K_NEW:  // a cache was refused before
    case REGARD_V_NEW:
    case REGARD_ROPE_COS:
    case REGARD_ROPE_SIN:
    case REGARD_CACHE_INDEX:
    case REGARD_PAGE_TABLE:
    case REGARD_PAGE_OFFSETS:
    case REGARD_PAGE_LIST:
    case REGARD_LAST_PAGE_LENGTHS:
    case REGARD_OFFSETS_NEW:
    case REGARD_SLOTS:
    case REGARD_POSITIONS:
    case REGARD_LEFT_PADDING:
    case REGARD_PARTIAL_O:
    case REGARD_PARTIAL_LSE:
    case REGARD_ROLE_COUNT:
      break;
  }
  return {};
}

Inputs::Inputs(const Problem& problem, const regard_arguments& arguments)
    : problem_(problem),
      arguments_(arguments),
      all_equal_(!problem.varlen && !problem.lengths),
      seed_(arguments.seed),
      offset_(arguments.offset) {
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const regard_tensor& tensor = arguments.tensor[i];
    if (tensor.data) index_[i] = index_of(regard_role(i), tensor.rank, tensor.shape, tensor.strides);
  }
  const auto integer = [&](regard_role role, std::int64_t b) {
    return static_cast<std::int64_t>(read(role, b, 0, 0, 0));
  };
  for (std::int64_t b = 0; b < (all_equal_ ? 1 : problem.b); ++b) {
    Sequence sequence{problem.sq, problem.sk, 0, 0};
    if (problem.varlen) {
      sequence.first_q = integer(REGARD_OFFSETS_Q, b);
      sequence.first_k = integer(REGARD_OFFSETS_K, b);
      sequence.sq = integer(REGARD_OFFSETS_Q, b + 1) - sequence.first_q;
      sequence.sk = integer(REGARD_OFFSETS_K, b + 1) - sequence.first_k;
    }
    if (problem.lengths && given(REGARD_LENGTHS_Q)) sequence.sq = integer(REGARD_LENGTHS_Q, b);
    if (problem.lengths && given(REGARD_LENGTHS_K)) sequence.sk = integer(REGARD_LENGTHS_K, b);
    sequences_.push_back(sequence);
  }
  if (problem.dropout > 0) keep_ = static_cast<int>(std::floor((1 - problem.dropout) * 255));
  if (given(REGARD_SEED)) {
    std::uint64_t words[2];
    std::memcpy(words, arguments.tensor[REGARD_SEED].data, sizeof words);
    seed_ = words[0];
    offset_ = words[1];
  }
}

double Inputs::read(regard_role role, std::int64_t batch, std::int64_t head, std::int64_t row,
                    std::int64_t column) const {
  const regard_tensor& tensor = arguments_.tensor[role];
  return decode(tensor.dtype, tensor.data, index_[role].at(batch, head, row) + column);
}

Matrix Inputs::matrix(regard_role role, std::int64_t batch, std::int64_t head) const {
  const Sequence& s = sequence(batch);
  const bool of_keys = role == REGARD_K || role == REGARD_V;
  const bool of_d = role == REGARD_Q || role == REGARD_K;
  const std::int64_t first = of_keys ? s.first_k : s.first_q;
  Matrix result{of_keys ? s.sk : s.sq, of_d ? problem_.d : problem_.dv, {}};
  result.values.resize(static_cast<std::size_t>(result.rows * result.columns));
  const double factor = descale(role, batch, of_keys ? head : kv_head(head));
  for (std::int64_t i = 0; i < result.rows; ++i)
    for (std::int64_t c = 0; c < result.columns; ++c)
      result.row(i)[c] = factor * read(role, batch, head, first + i, c);
  return result;
}

double Inputs::descale(regard_role role, std::int64_t batch, std::int64_t kv_head) const {
  regard_role factor = REGARD_ROLE_COUNT;
  if (role == REGARD_Q) factor = REGARD_DESCALE_Q;
  if (role == REGARD_K) factor = REGARD_DESCALE_K;
  if (role == REGARD_V) factor = REGARD_DESCALE_V;
  if (factor == REGARD_ROLE_COUNT || problem_.descale == Descale::none || !given(factor)) return 1;
  return read(factor, batch, kv_head, 0, 0);
}

bool Inputs::visible_by_position(const Sequence& s, std::int64_t i, std::int64_t j) const {
  // How far the key is to the right of the query's position on the diagonal.
  const std::int64_t bottom_right = j - (i + s.sk - s.sq), top_left = j - i;
  const auto in_window = [&](std::int64_t distance) {
    const bool left = problem_.window_left < 0 || distance >= -problem_.window_left ||
                      j < problem_.sink_tokens;  // sink tokens relax only the left edge
    return left && (problem_.window_right < 0 || distance <= problem_.window_right);
  };
  switch (problem_.mask) {
    case Mask::none:
      return true;
    case Mask::causal:
      return bottom_right <= 0;
    case Mask::causal_top_left:
      return top_left <= 0;
    case Mask::window:
      return in_window(bottom_right);
    case Mask::window_top_left:
      return in_window(top_left);
  }
  return false;
}

bool Inputs::visible(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j) const {
  const Sequence& s = sequence(batch);
  if (!visible_by_position(s, i, j)) return false;
  if (problem_.ranges) {
    const std::int64_t row = s.first_q + i;
    if (j < read(REGARD_RANGES, batch, 0, row, 0) || j >= read(REGARD_RANGES, batch, 0, row, 1)) return false;
  }
  if (problem_.bits) {
    const auto word = static_cast<std::uint32_t>(read(REGARD_BITS, batch, head, i, j / 32));
    if (!(word >> (j % 32) & 1)) return false;
  }
  return true;
}

double Inputs::bias(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j) const {
  if (has_elementwise_bias(problem_.bias)) return read(REGARD_BIAS, batch, head, i, j);
  if (!has_alibi(problem_.bias)) return 0;
  const Sequence& s = sequence(batch);
  const double slope = read(REGARD_ALIBI, batch, head, 0, 0);
  return -slope * static_cast<double>(std::llabs(i + s.sk - s.sq - j));
}

double Inputs::sink(std::int64_t head) const {
  return problem_.sink ? read(REGARD_SINK, 0, head, 0, 0) : -infinity;
}

philox::Random Inputs::random(std::int64_t batch, std::int64_t head) const {
  return philox::Random(seed_, offset_, batch, head, philox::WideMultiply{});
}

bool Inputs::kept(const philox::Random& random, std::int64_t i, std::int64_t j) const {
  return problem_.dropout == 0 || random.byte(i, j) <= keep_;
}

}  // namespace regard::oracle
