#include "oracle/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "oracle/number.h"

namespace regard::oracle {

Index index_of(regard_role role, int rank, const std::int64_t* shape, const std::int64_t* strides) {
  const auto broadcast = [&](int dimension) { return shape[dimension] == 1 ? 0 : strides[dimension]; };
  switch (role) {
    case REGARD_Q:
    case REGARD_K:  // as far as they are no cache (places.h)
    case REGARD_V:
    case REGARD_K_ROPE:
    case REGARD_O:
    case REGARD_GRAD_O:
    case REGARD_GRAD_Q:
    case REGARD_GRAD_K:
    case REGARD_GRAD_V:  // [b,s,h,d] | [t,h,d]
      return rank == 4 ? Index{strides[0], strides[2], strides[1]} : Index{0, strides[1], strides[0]};
    case REGARD_LSE:
    case REGARD_ROW_MAX:
    case REGARD_GRAD_LSE:  // [b,h,s] | [h,t]
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
    case REGARD_DESCALE_V:  // [1] | [1|b,hk] | [pages,hk] | rows of K and V: [b,s,hk]
      if (rank == 1) return {};
      return rank == 2 ? Index{broadcast(0), strides[1], 0} : Index{strides[0], strides[2], strides[1]};
    case REGARD_OFFSETS_Q:
    case REGARD_OFFSETS_K:
    case REGARD_LENGTHS_Q:
    case REGARD_LENGTHS_K:
    case REGARD_PAGE_OFFSETS:
    case REGARD_LAST_PAGE_LENGTHS:
    case REGARD_OFFSETS_NEW:
    case REGARD_LEFT_PADDING:  // [b], [b+1]
      return {strides[0], 0, 0};
    case REGARD_POSITIONS:  // of each sequence; those of each token are for new_tokens.h
      return {strides[0], 0, 0};
    case REGARD_PARTIAL_O:  // [parts,tokens,hq,dv]
      return {strides[0], strides[2], strides[1]};
    case REGARD_PARTIAL_LSE:  // [parts,hq,tokens]
      return {strides[0], strides[1], strides[2]};
    case REGARD_SEED:
    case REGARD_K_NEW:
    case REGARD_V_NEW:
    case REGARD_ROPE_COS:
    case REGARD_ROPE_SIN:
    case REGARD_CACHE_INDEX:
    case REGARD_PAGE_TABLE:
    case REGARD_PAGE_LIST:
    case REGARD_SLOTS:
    case REGARD_ROLE_COUNT:
      break;
    default:  // captured tensors, which functions index
      break;
  }
  return {};
}

Inputs::Inputs(const Problem& problem, const regard_arguments& arguments)
    : problem_(problem),
      arguments_(arguments),
      functions_(problem, arguments),
      places_(problem, arguments),
      new_tokens_(problem, arguments),
      rotation_(problem, arguments),
      all_equal_(!problem.varlen && !problem.lengths && !problem.left_padding &&
                 problem.table == PageTable::vllm && !packs_new(problem)),
      seed_(arguments.seed),
      offset_(arguments.offset) {
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const regard_tensor& tensor = arguments.tensor[i];
    if (tensor.data) index_[i] = index_of(regard_role(i), tensor.rank, tensor.shape, tensor.strides);
  }
  for (const regard_role role : {REGARD_DESCALE_K, REGARD_DESCALE_V}) {
    const regard_tensor& factors = arguments.tensor[role];
    if (has_factors_of_tokens(problem) && packs_keys(problem))  // rows of packed sequences: [t,hk,...]
      index_[role] = {0, factors.strides[1], factors.strides[0]};
  }
  for (std::int64_t b = 0; b < (all_equal_ ? 1 : problem.b); ++b) {
    Sequence sequence{problem.sq, problem.sk, 0, 0};
    if (problem.varlen) {
      sequence.first_q = integer(REGARD_OFFSETS_Q, b);
      sequence.sq = integer(REGARD_OFFSETS_Q, b + 1) - sequence.first_q;
    }
    if (problem.lengths && given(REGARD_LENGTHS_Q)) sequence.sq = integer(REGARD_LENGTHS_Q, b);
    if (problem.pass != Pass::merge) find_keys(b, sequence);
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

std::int64_t Inputs::integer(regard_role role, std::int64_t batch) const {
  return static_cast<std::int64_t>(read(role, batch, 0, 0, 0));
}

void Inputs::find_keys(std::int64_t batch, Sequence& sequence) const {
  if (packs_keys(problem_)) {
    sequence.first_k = integer(REGARD_OFFSETS_K, batch);
    sequence.sk = integer(REGARD_OFFSETS_K, batch + 1) - sequence.first_k;
    if (problem_.lengths && given(REGARD_LENGTHS_K)) sequence.sk = integer(REGARD_LENGTHS_K, batch);
    return;
  }
  // Lengths are those before the new tokens; lists of pages count these already.
  const std::int64_t added = given(REGARD_OFFSETS_NEW)
                                 ? integer(REGARD_OFFSETS_NEW, batch + 1) - integer(REGARD_OFFSETS_NEW, batch)
                                 : problem_.snew;
  sequence.before = problem_.sk - added;
  if (given(REGARD_PAGE_OFFSETS)) {
    const std::int64_t pages = integer(REGARD_PAGE_OFFSETS, batch + 1) - integer(REGARD_PAGE_OFFSETS, batch);
    const std::int64_t rows = (pages - 1) * problem_.paged + integer(REGARD_LAST_PAGE_LENGTHS, batch);
    sequence.before = pages == 0 ? -1 : rows - added;
  } else if (given(REGARD_LENGTHS_K)) {
    sequence.before = integer(REGARD_LENGTHS_K, batch);
  }
  if (sequence.before < 0) {  // neither keys nor new tokens
    sequence.before = sequence.sk = 0;
    return;
  }
  const std::int64_t end = std::min(sequence.before + added, problem_.sk);
  if (given(REGARD_LEFT_PADDING))
    sequence.first_k = std::clamp<std::int64_t>(integer(REGARD_LEFT_PADDING, batch), 0, end);
  sequence.sk = end - sequence.first_k;
}

std::vector<NewToken> Inputs::new_tokens(std::int64_t batch) const {
  const Sequence& s = sequence(batch);
  std::vector<NewToken> tokens;
  for (std::int64_t row = s.before; writes_cache(problem_) && row < s.end(); ++row)
    tokens.push_back(new_tokens_.token(batch, row - s.before, s.before));
  return tokens;
}

std::vector<NewToken> Inputs::new_tokens() const {
  std::vector<NewToken> tokens;
  if (problem_.slots != SlotType::none) {
    for (std::int64_t token = 0; token < problem_.tnew; ++token)
      if (const NewToken found = new_tokens_.token_with_slot(token); found.place.row >= 0)
        tokens.push_back(found);
    return tokens;
  }
  for (std::int64_t batch = 0; batch < problem_.b; ++batch)
    for (const NewToken& token : new_tokens(batch)) tokens.push_back(token);
  return tokens;
}

Matrix Inputs::matrix(regard_role role, std::int64_t batch, std::int64_t head) const {
  if (role == REGARD_K || role == REGARD_V) return keys(role, batch, head);
  const Sequence& s = sequence(batch);
  Matrix result{s.sq, role == REGARD_Q ? problem_.d : problem_.dv, {}};
  result.values.resize(static_cast<std::size_t>(result.rows * result.columns));
  const double factor = role == REGARD_Q ? descale_q(batch, kv_head(head)) : 1;
  const std::int64_t position = problem_.positions == Positions::sequence
                                    ? static_cast<std::int64_t>(read(REGARD_POSITIONS, batch, 0, 0, 0))
                                    : s.before;
  for (std::int64_t i = 0; i < result.rows; ++i) {
    for (std::int64_t c = 0; c < result.columns; ++c)
      result.row(i)[c] = factor * read(role, batch, head, s.first_q + i, c);
    if (role == REGARD_Q)
      rotation_.rotate(problem_.mask == Mask::none ? position : position + i, result.row(i));
  }
  return result;
}

Matrix Inputs::keys(regard_role role, std::int64_t batch, std::int64_t kv_head) const {
  const Sequence& s = sequence(batch);
  Matrix result{s.sk, role == REGARD_K ? problem_.d : problem_.dv, {}};
  result.values.resize(static_cast<std::size_t>(result.rows * result.columns));
  const StoredKeys stored(problem_, arguments_, role);
  for (std::int64_t j = 0; j < result.rows; ++j) {
    if (is_cache(problem_) && left_of_all_windows(s, j)) continue;
    const Place place = places_.of_row(batch, s.first_k + j);
    const double factor = given_factor(role, batch, kv_head, place, 0);
    if (writes_cache(problem_) && s.first_k + j >= s.before) {
      const NewToken token = new_tokens_.token(batch, s.first_k + j - s.before, s.before);
      const std::vector<double> row = new_tokens_.read_back(stored.side, token, kv_head, factor);
      std::copy_n(row.begin(), result.columns, result.row(j));
      continue;
    }
    for (std::int64_t c = 0; c < result.columns; ++c)
      result.row(j)[c] = given_factor(role, batch, kv_head, place, c) * stored.at(place, kv_head, c);
  }
  return result;
}

double Inputs::descale_q(std::int64_t batch, std::int64_t kv_head) const {
  return given(REGARD_DESCALE_Q) ? read(REGARD_DESCALE_Q, batch, kv_head, 0, 0) : 1;
}

double Inputs::given_factor(regard_role role, std::int64_t batch, std::int64_t kv_head, const Place& place,
                            std::int64_t column) const {
  const regard_role factor = side_of(problem_, role) == REGARD_K ? REGARD_DESCALE_K : REGARD_DESCALE_V;
  switch (problem_.descale) {
    case Descale::none:
      return 1;
    case Descale::tensor:
    case Descale::head:
      return read(factor, batch, kv_head, 0, 0);
    case Descale::token:
    case Descale::page:
      return read(factor, place.batch, kv_head, place.row, 0);
    case Descale::columns:
      return column < problem_.dv ? read(factor, place.batch, kv_head, place.row, column / factor_columns)
                                  : 1;
  }
  return 1;
}

bool Inputs::left_of_all_windows(const Sequence& s, std::int64_t j) const {
  const bool window = problem_.mask == Mask::window || problem_.mask == Mask::window_top_left;
  if (!window || problem_.window_left < 0 || j < problem_.sink_tokens) return false;
  const std::int64_t first = problem_.mask == Mask::window ? s.sk - s.sq : 0;  // of query 0
  return j < first - problem_.window_left;
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

FunctionPlace Inputs::place(std::int64_t batch, std::int64_t head, std::int64_t i, std::int64_t j) const {
  const Sequence& s = sequence(batch);
  const std::int64_t first_q = problem_.varlen ? s.first_q : batch * problem_.sq,
                     first_k = packs_keys(problem_) ? s.first_k : batch * problem_.sk;
  FunctionPlace place;
  const auto set = [&](function::Variable variable, std::int64_t value) {
    place.of[static_cast<int>(variable)] = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
  };
  set(function::Variable::b, batch);
  set(function::Variable::h, head);
  set(function::Variable::hk, kv_head(head));
  set(function::Variable::q, i);
  set(function::Variable::kv, j);
  set(function::Variable::p, i + s.sk - s.sq);
  set(function::Variable::sq, s.sq);
  set(function::Variable::sk, s.sk);
  set(function::Variable::tq, first_q + i);
  set(function::Variable::tk, first_k + j);
  return place;
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
