#include "support/case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>

#include "oracle/number.h"
#include "oracle/places.h"
#include "support/fill.h"

namespace regard::test {
namespace {

// All bits set is NaN in every floating-point type here.
constexpr std::uint8_t poison = 0xff;
constexpr std::int64_t guard = 256;

/// A test's own text is wrong: it cannot continue.
template <class T>
T must(Result<T> result, const std::string& text) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "bad test case '%s': %s\n", text.c_str(), result.error().message.c_str());
  std::abort();
}

std::int64_t product(const std::int64_t* shape, int rank) {
  std::int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= shape[i];
  return count;
}

/// One past the last element.
std::int64_t extent(const regard_tensor& tensor) {
  if (product(tensor.shape, tensor.rank) == 0) return 0;
  std::int64_t end = 1;
  for (int i = 0; i < tensor.rank; ++i) end += (tensor.shape[i] - 1) * tensor.strides[i];
  return end;
}

std::uint8_t* aligned(std::vector<std::uint8_t>& memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data()) + guard;
  return reinterpret_cast<std::uint8_t*>((address + 63) / 64 * 64);
}

/// Only dimensions up to this have large strides, as an emulator keeps a record of every page in between.
std::int64_t largest_far_dimension() {
  return std::getenv("TEST_EMULATOR") == nullptr ? std::numeric_limits<std::int64_t>::max() : 3;
}

}  // namespace

Case::Case(const std::string& text, const CaseOptions& options)
    : problem_(must(parse(text), text)), options_(options) {
  if (const Status status = validate(problem_); !status) must<int>(tl::unexpected(status.error()), text);
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const TensorSpec spec = tensor_spec(problem_, static_cast<regard_role>(i));
    if (spec.use == REGARD_UNUSED || spec.role == REGARD_SEED) continue;
    if (spec.role == REGARD_LENGTHS_Q && options.only_lengths_k) continue;
    if (spec.role == REGARD_CACHE_INDEX && options.no_cache_index) continue;
    allocate(spec);
  }
  fill_all();
  if (options.nan_behind) set_rows_behind_sequences_to_nan();
  arguments_.seed = 0x123456789abcdef0 + options.seed;
  arguments_.offset = 0xfedcba9876543210;
  if (problem_.pass == Pass::bwd && options.forward_inputs) compute_forward_inputs();
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const bool rotated = i == REGARD_Q && problem_.rope != Rope::none;  // elsewhere, and not in place
    if (rotated || tensor_use(problem_, static_cast<regard_role>(i)) == REGARD_INPUT_OUTPUT)
      buffers_[i].before.assign(buffers_[i].room.begin(), buffers_[i].room.end());
  }
}

void Case::fill_all() {
  // Lengths are drawn to be at most the physical ones, so the offsets come first.
  std::vector<regard_role> order = {REGARD_OFFSETS_Q, REGARD_OFFSETS_K, REGARD_LENGTHS_Q};
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i)
    if (std::ranges::find(order, static_cast<regard_role>(i)) == order.end())
      order.push_back(static_cast<regard_role>(i));
  for (const regard_role role : order) {
    const TensorSpec spec = tensor_spec(problem_, role);
    if (!arguments_.tensor[role].data || spec.use == REGARD_OUTPUT) continue;
    const bool computed = role == REGARD_O || role == REGARD_LSE;
    if (computed && spec.use != REGARD_INPUT_OUTPUT) continue;
    fill(spec);
  }
  if (is_cache(problem_)) fill_cache();
  if (problem_.pass == Pass::merge) set_empty_parts_to_nan();
}

/// O is never read where the LSE is -infinity.
void Case::set_empty_parts_to_nan() {
  const std::int64_t tokens = tensor_spec(problem_, REGARD_PARTIAL_O).shape[1], heads = problem_.hq;
  const auto set_row = [&](regard_role role, std::int64_t row) {
    for (std::int64_t c = 0; c < problem_.dv; ++c) set(role, row * problem_.dv + c, std::nan(""));
  };
  for (std::int64_t i = 0; i < count(REGARD_PARTIAL_LSE); ++i) {
    const std::int64_t token = i % tokens, head = i / tokens % heads, part = i / tokens / heads;
    if (std::isinf(get(REGARD_PARTIAL_LSE, i)))
      set_row(REGARD_PARTIAL_O, (part * tokens + token) * heads + head);
  }
  for (std::int64_t i = 0; problem_.accumulate && i < count(REGARD_LSE); ++i) {
    const std::int64_t rows = problem_.varlen ? tokens : problem_.sq;  // [b, hq, rows]
    const std::int64_t row = i % rows, head = i / rows % heads, batch = i / rows / heads;
    if (std::isinf(get(REGARD_LSE, i))) set_row(REGARD_O, (batch * rows + row) * heads + head);
  }
}

void Case::put(regard_role role, const auto& numbers) {
  if (!arguments_.tensor[role].data) return;
  TensorSpec spec = tensor_spec(problem_, role);
  if (spec.shorter) {  // its memory ends where the numbers do
    spec.shape[0] = std::ssize(numbers);
    allocate(spec);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i)
    set(role, static_cast<std::int64_t>(i), static_cast<double>(numbers[i]));
}

std::int64_t Case::queries_of(std::int64_t batch) const {
  const auto integer = [&](regard_role role, std::int64_t i) {
    return static_cast<std::int64_t>(get(role, i));
  };
  if (problem_.pass != Pass::fwd) return 0;
  if (arguments_.tensor[REGARD_LENGTHS_Q].data) return integer(REGARD_LENGTHS_Q, batch);
  if (!problem_.varlen) return problem_.sq;
  return integer(REGARD_OFFSETS_Q, batch + 1) - integer(REGARD_OFFSETS_Q, batch);
}

void Case::fill_cache() {
  const Dimensions rows = tensor_spec(problem_, REGARD_K).shape;
  cli::CacheSizes sizes;
  sizes.b = problem_.b;
  sizes.sk = problem_.sk;
  sizes.page = problem_.paged;
  sizes.pages = rows[0];
  sizes.cache = problem_.cache > 0 || problem_.slots != SlotType::none ? rows[0] : 0;
  sizes.snew = problem_.snew;
  sizes.tnew = problem_.tnew;
  sizes.lists = problem_.table == PageTable::sglang;
  sizes.lengths = arguments_.tensor[REGARD_LENGTHS_K].data != nullptr;
  sizes.left_padding = problem_.left_padding;
  sizes.slots = problem_.slots != SlotType::none;
  sizes.window_left = problem_.window_left;
  sizes.sink_tokens = problem_.sink_tokens;
  sizes.top_left = problem_.mask == Mask::window_top_left;
  if (problem_.rope != Rope::none && problem_.positions == Positions::length)
    sizes.rope_rows = tensor_spec(problem_, REGARD_ROPE_COS).shape[0];
  sizes.queries_follow = problem_.mask != Mask::none;
  cli::DrawnCache given;
  if (problem_.cache > 0 && options_.no_cache_index)
    for (std::int64_t b = 0; b < problem_.b; ++b) given.cache_index.push_back(static_cast<std::int32_t>(b));
  std::vector<std::int64_t> queries;
  for (std::int64_t b = 0; b < problem_.b; ++b) queries.push_back(queries_of(b));
  const std::optional<cli::DrawnCache> drawn = cli::draw_cache(sizes, queries, options_.seed, given);
  if (!drawn) must<int>(invalid("the cache has too few pages or sequences for new tokens"), description());
  put(REGARD_LENGTHS_K, drawn->lengths);
  put(REGARD_OFFSETS_NEW, drawn->offsets_new);
  put(REGARD_LEFT_PADDING, drawn->left_padding);
  put(REGARD_CACHE_INDEX, drawn->cache_index);
  put(REGARD_PAGE_TABLE, drawn->page_table);
  put(REGARD_PAGE_OFFSETS, drawn->page_offsets);
  put(REGARD_PAGE_LIST, drawn->page_list);
  put(REGARD_LAST_PAGE_LENGTHS, drawn->last_page_lengths);
  put(REGARD_SLOTS, drawn->slots);
  if (problem_.pass == Pass::fwd) set_rows_that_are_not_read_to_nan(*drawn);
}

void Case::set_rows_that_are_not_read_to_nan(const cli::DrawnCache& drawn) {
  const std::int64_t rows_each = problem_.paged > 0 ? problem_.paged : problem_.sk,
                     all = tensor_spec(problem_, REGARD_K).shape[0];
  std::vector<bool> is_read(static_cast<std::size_t>(all * rows_each));
  for (const cli::DrawnCache::Row& row : drawn.rows)
    is_read[static_cast<std::size_t>(row.batch * rows_each + row.row)] = true;
  for (const regard_role role : {REGARD_K, REGARD_V, REGARD_K_ROPE}) {
    const regard_tensor& tensor = arguments_.tensor[role];
    if (!tensor.data) continue;
    const oracle::KvIndex index(problem_, role, tensor.rank, tensor.strides);
    const std::int64_t columns =
        is_vectorized(problem_) ? role == REGARD_K ? problem_.d : problem_.dv : tensor.shape[tensor.rank - 1];
    const regard_role factors = role == REGARD_V ? REGARD_DESCALE_V : REGARD_DESCALE_K;
    for (std::int64_t i = 0; i < all * rows_each; ++i) {
      if (is_read[static_cast<std::size_t>(i)]) continue;
      for (std::int64_t head = 0; head < problem_.hk; ++head) {
        for (std::int64_t c = 0; c < columns; ++c) {
          oracle::encode(tensor.dtype, tensor.data, index.at({i / rows_each, i % rows_each}, head, c),
                         tensor.dtype == REGARD_INT8 ? -128 : std::nan(""));
        }
        if (!has_factors_of_tokens(problem_)) continue;
        const std::int64_t count = problem_.descale == Descale::columns ? problem_.dv / factor_columns : 1;
        for (std::int64_t c = 0; c < count; ++c)
          set(factors, (i * problem_.hk + head) * count + c, std::nan(""));
      }
    }
  }
}

std::string Case::description() const {
  std::string text = "'" + print(problem_) + "' seed=" + std::to_string(options_.seed);
  if (options_.numbers) text += std::string(", numbers: ") + options_.numbers->name;
  if (options_.q_scale != 1) text += " q_scale=" + std::to_string(options_.q_scale);
  if (options_.v_rectified) text += " v_rectified";
  if (options_.bias_offset != 0) text += " bias_offset=" + std::to_string(options_.bias_offset);
  if (options_.padded_keys > 0) {
    text += " padding=" + std::to_string(options_.padding) + " of " + std::to_string(options_.padded_keys) +
            " keys";
  }
  if (options_.sink_offset != 0) text += " sink_offset=" + std::to_string(options_.sink_offset);
  if (options_.nan_row >= 0) text += " nan_row=" + std::to_string(options_.nan_row);
  if (options_.nan_key >= 0) text += " nan_key=" + std::to_string(options_.nan_key);
  if (options_.nan_behind) text += " nan_behind";
  if (options_.padded_rows) text += " padded_rows";
  if (options_.broadcast) text += " broadcast";
  if (options_.only_lengths_k) text += " only_lengths_k";
  if (options_.no_cache_index) text += " no_cache_index";
  if (options_.side_by_side) text += " side_by_side";
  if (options_.far) text += " far";
  if (options_.guarded == Guarded::at_start) text += ", no access before each tensor";
  if (options_.guarded == Guarded::at_end) text += ", no access behind each tensor";
  return text;
}

void Case::allocate(const TensorSpec& spec) {
  regard_tensor& tensor = arguments_.tensor[spec.role];
  tensor.dtype = spec.dtype;
  tensor.rank = static_cast<std::int32_t>(spec.shape.size());
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    tensor.shape[i] = spec.broadcast[i] && options_.broadcast ? 1 : spec.shape[i];
    tensor.strides[i] = spec.strides[i];
  }
  const bool padded = options_.padded_rows && !spec.contiguous && spec.role != REGARD_RANGES;
  const bool far = options_.far && !spec.contiguous && spec.role != REGARD_RANGES;
  if (far) {
    // All but the last dimension and the nearest one before it.
    const std::int64_t apart = (std::int64_t{5} << 30) / static_cast<std::int64_t>(bytes_of(spec.dtype));
    const auto nearest =
        std::min_element(spec.strides.begin(), spec.strides.end() - 1) - spec.strides.begin();
    std::int64_t next = apart;
    for (int i = tensor.rank - 2; i >= 0; --i) {
      if (i == nearest || tensor.shape[i] == 1 || tensor.shape[i] > largest_far_dimension()) continue;
      tensor.strides[i] = next;
      next *= tensor.shape[i];
    }
  }
  if (tensor.shape[0] != spec.shape[0] || (tensor.rank > 1 && tensor.shape[1] != spec.shape[1]) || padded) {
    // Dimensions keep their order in memory; with padding every one of them leaves a gap.
    std::vector<int> order;
    for (int i = 0; i < tensor.rank; ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return spec.strides[a] < spec.strides[b]; });
    std::int64_t next = 1;
    // The last dimension is the contiguous one, even if another one has size 1.
    order.erase(std::find(order.begin(), order.end(), tensor.rank - 1));
    order.insert(order.begin(), tensor.rank - 1);
    for (const int dimension : order) {
      tensor.strides[dimension] = next;
      next = next * std::max<std::int64_t>(tensor.shape[dimension], 1) + (padded ? 3 : 0);
    }
  }
  if (options_.side_by_side && (spec.role == REGARD_K || spec.role == REGARD_V)) leave_room(tensor);
  Buffer& buffer = buffers_[spec.role];
  buffer.bytes = extent(tensor) * static_cast<std::int64_t>(bytes_of(spec.dtype));
  if (far) {
    buffer.guarded = std::make_unique<GuardedMemory>(std::string(spec.name), buffer.bytes, Guarded::at_end);
    tensor.data = buffer.guarded->data();
  } else if (options_.guarded != Guarded::no) {
    buffer.guarded = std::make_unique<GuardedMemory>(std::string(spec.name), buffer.bytes, options_.guarded);
    buffer.room = buffer.guarded->room();
    tensor.data = buffer.guarded->data();
  } else {
    buffer.memory.resize(static_cast<std::size_t>(buffer.bytes + 2 * guard + 64));
    buffer.room = buffer.memory;
    tensor.data = aligned(buffer.memory);
  }
  poison_tensor(spec.role);
}

/// Every row of K or V is followed by as many elements as a row of the other tensor has.
void Case::leave_room(regard_tensor& tensor) const {
  const std::int64_t columns = tensor.shape[tensor.rank - 1];
  for (int i = 0; i + 1 < tensor.rank; ++i)
    tensor.strides[i] = tensor.strides[i] / columns * (problem_.d + problem_.dv);
}

void Case::poison_tensor(regard_role role) {
  const std::span<std::uint8_t> room = buffers_[role].room;
  if (!room.empty()) {
    std::ranges::fill(room, poison);
    return;
  }
  const regard_tensor& tensor = arguments_.tensor[role];
  const std::size_t size = bytes_of(tensor.dtype);
  auto* const data = static_cast<std::uint8_t*>(tensor.data);
  each_element(role, [&](std::int64_t, std::int64_t offset) {
    std::memset(data + offset * static_cast<std::int64_t>(size), poison, size);
  });
}

void Case::fill(const TensorSpec& spec) {
  const regard_tensor& tensor = arguments_.tensor[spec.role];
  Random random(options_.seed * 1000003 + std::hash<std::string>{}(print(problem_)) + spec.role * 7919u);
  const std::int64_t n = count(spec.role);
  const auto physical = [&](regard_role offsets, std::int64_t longest) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t b = 0; b < problem_.b; ++b)
      lengths.push_back(problem_.varlen ? static_cast<std::int64_t>(get(offsets, b + 1) - get(offsets, b))
                                        : longest);
    return lengths;
  };
  std::vector<double> values;
  switch (spec.role) {
    case REGARD_OFFSETS_Q:
      values = random_offsets(random, problem_.b, problem_.sq, tensor_spec(problem_, REGARD_Q).shape[0]);
      break;
    case REGARD_OFFSETS_K:
      values = random_offsets(random, problem_.b, problem_.sk, tensor_spec(problem_, REGARD_K).shape[0]);
      break;
    case REGARD_LENGTHS_Q:
      values = random_lengths(random, physical(REGARD_OFFSETS_Q, problem_.sq));
      break;
    case REGARD_LENGTHS_K:
      if (is_cache(problem_)) return;
      values = random_lengths(random, physical(REGARD_OFFSETS_K, problem_.sk));
      break;
    case REGARD_RANGES:
      values = random_ranges(random, n / 2, problem_.sk);
      break;
    case REGARD_BITS: {
      const std::int64_t words = tensor.shape[tensor.rank - 1];
      values = random_bits(random, words ? n / words : 0, words);
      break;
    }
    case REGARD_OFFSETS_NEW:
    case REGARD_LEFT_PADDING:
    case REGARD_CACHE_INDEX:
    case REGARD_PAGE_TABLE:
    case REGARD_PAGE_OFFSETS:
    case REGARD_PAGE_LIST:
    case REGARD_LAST_PAGE_LENGTHS:
    case REGARD_SLOTS:
      return;  // fill_cache
    case REGARD_ALIBI:
    case REGARD_DESCALE_Q:
      values = uniform(random, n, 0.25, 1.25);
      break;
    case REGARD_DESCALE_K:
    case REGARD_DESCALE_V:
      values = uniform(random, n, 0.25 / integer_unit(), 1.25 / integer_unit());
      break;
    case REGARD_LSE:
    case REGARD_PARTIAL_LSE:
      values = random_lse(random, n, tensor.shape[tensor.rank - 1]);
      break;
    case REGARD_POSITIONS:
      values = positions(random, n);
      break;
    case REGARD_ROPE_COS:
    case REGARD_ROPE_SIN:
      values = rope_table(spec);
      break;
    case REGARD_Q:
      values = normal(random, n, options_.q_scale);
      break;
    case REGARD_K:
      values = normal(random, n, integer_unit());
      break;
    case REGARD_K_ROPE:
      values = normal(random, n, has_wide_k_rope(problem_) ? 1 : integer_unit());
      break;
    case REGARD_V:
      values = normal(random, n, integer_unit());
      if (options_.v_rectified)
        for (double& value : values) value = std::max(value, 0.0);
      break;
    case REGARD_BIAS:
      values = normal(random, n, 1, options_.bias_offset);
      for (std::int64_t i = 0; options_.padded_keys > 0 && i < n; ++i) {
        const std::int64_t row = i / problem_.sk % problem_.sq;
        if (row % 8 == 7 || i % problem_.sk < options_.padded_keys) {
          values[static_cast<std::size_t>(i)] = options_.padding;
        }
      }
      break;
    case REGARD_SINK:
      values = normal(random, n, 1, options_.sink_offset);
      break;
    default:
      if (is_captured(spec.role) && spec.dtype != REGARD_FP32)
        values = whole_numbers(random, n, 0, spec.dtype == REGARD_UINT8 ? 1 : 5);
      else
        values = normal(random, n, 1);
  }
  each_element(spec.role, [&](std::int64_t i, std::int64_t offset) {
    oracle::encode(tensor.dtype, tensor.data, offset, values[static_cast<std::size_t>(i)]);
  });
  if (options_.numbers) fill_from_numbers(spec.role);
  if (spec.role == REGARD_Q) set_row_to_nan(spec.role, options_.nan_row);
  if (spec.role == REGARD_K) set_row_to_nan(spec.role, options_.nan_key);
}

/// What 1 is in int8, before factors.
double Case::integer_unit() const {
  return problem_.kv == DType::int8 ? 32 : 1;
}

std::vector<double> Case::positions(Random& random, std::int64_t count) const {
  const std::int64_t rows = tensor_spec(problem_, REGARD_ROPE_COS).shape[0];
  const std::int64_t after =
      problem_.positions == Positions::sequence ? std::max<std::int64_t>({problem_.snew, problem_.sq, 1}) : 1;
  return whole_numbers(random, count, 0, std::max<std::int64_t>(rows - after, 0));
}

/// Angles of the usual frequencies.
std::vector<double> Case::rope_table(const TensorSpec& spec) const {
  std::vector<double> values;
  for (std::int64_t position = 0; position < spec.shape[0]; ++position) {
    for (std::int64_t i = 0; i < spec.shape[1]; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(10000, -static_cast<double>(i) / static_cast<double>(spec.shape[1]));
      values.push_back(spec.role == REGARD_ROPE_COS ? std::cos(angle) : std::sin(angle));
    }
  }
  return values;
}

void Case::fill_from_numbers(regard_role role) {
  const regard_tensor& tensor = arguments_.tensor[role];
  const bool vectors = role == REGARD_Q || role == REGARD_K || role == REGARD_V || role == REGARD_GRAD_O;
  if (!vectors && role != REGARD_BIAS && role != REGARD_SINK) return;
  const std::int64_t columns = role == REGARD_SINK ? 1 : tensor.shape[tensor.rank - 1];
  const std::int64_t heads = vectors ? tensor.shape[tensor.rank - 2] : 1;  // [.., rows, heads, columns]
  const std::int64_t rows = role == REGARD_SINK ? 1 : tensor.shape[tensor.rank - (vectors ? 3 : 2)];
  each_element(role, [&](std::int64_t i, std::int64_t offset) {
    const auto number = options_.numbers->of(problem_, role, i / columns / heads % rows, i % columns);
    if (number) oracle::encode(tensor.dtype, tensor.data, offset, *number);
  });
}

void Case::set_row_to_nan(regard_role role, std::int64_t row) {
  if (row < 0) return;
  const regard_tensor& tensor = arguments_.tensor[role];  // [b, s, h, d] or, packed, [t, h, d]
  const std::int64_t elements = product(tensor.shape + tensor.rank - 2, 2),
                     rows = tensor.shape[tensor.rank - 3];
  if (row >= rows) must<int>(invalid("there is no row " + std::to_string(row)), description());
  for (std::int64_t i = 0; i < count(role); ++i)
    if (i / elements % rows == row) set(role, i, std::nan(""));
}

void Case::set_rows_behind_sequences_to_nan() {
  const auto each_side = [&](regard_role offsets, regard_role lengths, std::int64_t longest, auto roles) {
    for (const regard_role role : roles) {
      const regard_tensor& tensor = arguments_.tensor[role];
      if (tensor.data == nullptr) continue;
      const std::int64_t elements = product(tensor.shape + tensor.rank - 2, 2);
      std::vector<bool> is_row(static_cast<std::size_t>(count(role) / std::max<std::int64_t>(elements, 1)));
      for (std::int64_t b = 0; b < problem_.b; ++b) {
        const auto first = problem_.varlen ? static_cast<std::int64_t>(get(offsets, b)) : b * longest;
        const auto physical =
            problem_.varlen ? static_cast<std::int64_t>(get(offsets, b + 1)) - first : longest;
        const auto length =
            arguments_.tensor[lengths].data ? static_cast<std::int64_t>(get(lengths, b)) : physical;
        std::fill_n(is_row.begin() + first, length, true);
      }
      for (std::int64_t i = 0; i < count(role); ++i)
        if (!is_row[static_cast<std::size_t>(i / elements)]) set(role, i, std::nan(""));
    }
  };
  each_side(REGARD_OFFSETS_Q, REGARD_LENGTHS_Q, problem_.sq, std::array{REGARD_Q, REGARD_GRAD_O});
  each_side(REGARD_OFFSETS_K, REGARD_LENGTHS_K, problem_.sk, std::array{REGARD_K, REGARD_V, REGARD_K_ROPE});
}

std::int64_t Case::count(regard_role role) const {
  const regard_tensor& tensor = arguments_.tensor[role];
  return product(tensor.shape, tensor.rank);
}

std::int64_t Case::offset_of(regard_role role, std::int64_t flat) const {
  const regard_tensor& tensor = arguments_.tensor[role];
  std::int64_t offset = 0;
  for (int i = tensor.rank; i-- > 0; flat /= tensor.shape[i])
    offset += flat % tensor.shape[i] * tensor.strides[i];
  return offset;
}

template <class Function>
void Case::each_element(regard_role role, Function function) const {
  const regard_tensor& tensor = arguments_.tensor[role];
  const std::int64_t columns = tensor.rank == 0 ? 1 : tensor.shape[tensor.rank - 1];
  for (std::int64_t row = 0; row < count(role); row += columns) {
    const std::int64_t start = offset_of(role, row),
                       stride = columns > 1 ? tensor.strides[tensor.rank - 1] : 0;
    for (std::int64_t i = 0; i < columns; ++i) function(row + i, start + i * stride);
  }
}

double Case::get(regard_role role, std::int64_t flat) const {
  const regard_tensor& tensor = arguments_.tensor[role];
  return oracle::decode(tensor.dtype, tensor.data, offset_of(role, flat));
}

void Case::set(regard_role role, std::int64_t flat, double value) {
  const regard_tensor& tensor = arguments_.tensor[role];
  const std::int64_t offset = offset_of(role, flat);
  oracle::encode(tensor.dtype, tensor.data, offset, value);
  Buffer& buffer = buffers_[role];
  if (buffer.before.empty()) return;
  auto* const start = buffer.before.data() + (static_cast<std::uint8_t*>(tensor.data) - buffer.room.data());
  oracle::encode(tensor.dtype, start, offset, value);
}

std::vector<std::uint8_t> Case::bytes(regard_role role) const {
  const regard_tensor& tensor = arguments_.tensor[role];
  const auto size = static_cast<std::int64_t>(bytes_of(tensor.dtype));
  const auto* data = static_cast<const std::uint8_t*>(tensor.data);
  std::vector<std::uint8_t> result;
  each_element(role, [&](std::int64_t, std::int64_t offset) {
    const std::uint8_t* element = data + offset * size;
    result.insert(result.end(), element, element + size);
  });
  return result;
}

void Case::poison_outputs() {
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (tensor_use(problem_, role) == REGARD_OUTPUT) poison_tensor(role);
    std::ranges::copy(buffers_[i].before, buffers_[i].room.begin());
  }
}

void Case::compute_forward_inputs(int threads) {
  Problem forward = problem_;
  forward.pass = Pass::fwd;
  forward.lse = true;
  forward.dbias = forward.dlse = forward.deterministic = false;
  forward.grads = {};
  const auto outputs = must(oracle::run(forward, arguments_, {threads, 0, 0}), print(forward));
  for (const regard_role role : {REGARD_O, REGARD_LSE}) {
    const oracle::Output& output = outputs.at(role);
    for (std::size_t i = 0; i < output.value.size(); ++i)
      if (output.has_result(i)) set(role, static_cast<std::int64_t>(i), output.value[i]);
  }
}

std::string Case::broken_guards(regard_role role) const {
  const Buffer& buffer = buffers_[role];
  if (buffer.room.empty()) return {};
  const regard_tensor& tensor = arguments_.tensor[role];
  const auto size = static_cast<std::int64_t>(bytes_of(tensor.dtype));
  std::vector<bool> owned(buffer.room.size(), false);
  const std::int64_t start = static_cast<const std::uint8_t*>(tensor.data) - buffer.room.data();
  each_element(role, [&](std::int64_t, std::int64_t offset) {
    for (std::int64_t byte = 0; byte < size; ++byte)
      owned[static_cast<std::size_t>(start + offset * size + byte)] = true;
  });
  for (std::size_t i = 0; i < owned.size(); ++i)
    if (!owned[i] && buffer.room[i] != poison)
      return std::string(role_name(role)) + ": wrote outside of the tensor, at byte " +
             std::to_string(static_cast<std::int64_t>(i) - start) + " of " + std::to_string(buffer.bytes) +
             "\n";
  return {};
}

std::string Case::changes_elsewhere(regard_role role, const oracle::Output* output) const {
  const Buffer& buffer = buffers_[role];
  const regard_tensor& tensor = arguments_.tensor[role];
  const std::size_t size = bytes_of(tensor.dtype);
  std::vector<bool> written(buffer.room.size(), false);
  const auto start =
      static_cast<std::size_t>(static_cast<const std::uint8_t*>(tensor.data) - buffer.room.data());
  for (std::size_t i = 0; output != nullptr && i < output->value.size(); ++i) {
    if (!output->written && !output->has_result(i)) continue;
    const std::int64_t flat = output->written ? (*output->written)[i] : static_cast<std::int64_t>(i);
    const std::size_t first = start + static_cast<std::size_t>(offset_of(role, flat)) * size;
    for (std::size_t byte = 0; byte < size; ++byte) written[first + byte] = true;
  }
  for (std::size_t i = 0; i < written.size(); ++i)
    if (!written[i] && buffer.room[i] != buffer.before[i])
      return std::string(role_name(role)) + ": byte " + std::to_string(i - start) +
             " is not to be written, and was changed\n";
  return {};
}

std::string Case::mistakes(const oracle::Outputs& expected, bool sampled) const {
  std::string text;
  char line[320];
  if (!buffers_[REGARD_Q].before.empty()) text += changes_elsewhere(REGARD_Q, nullptr);
  for (const oracle::Comparison& c : oracle::compare(problem_, arguments_, expected)) {
    const std::string name(role_name(c.role));
    text += broken_guards(c.role);
    if (!c.ok) {
      std::snprintf(line, sizeof line,
                    "%s: %lld of %lld wrong; the first, element %lld, is %g and should be %g; worst is %.3g "
                    "times the tolerance; largest error %.3g\n",
                    name.c_str(), static_cast<long long>(c.wrong), static_cast<long long>(c.compared),
                    static_cast<long long>(c.first_wrong), c.first_actual, c.first_expected, c.worst,
                    c.max_absolute);
      text += line;
    }
    const oracle::Output& output = expected.at(c.role);
    if (!buffers_[c.role].before.empty()) text += changes_elsewhere(c.role, &output);
    if (sampled || !buffers_[c.role].before.empty()) continue;
    const std::size_t elements = output.value.size();
    const std::vector<std::uint8_t> actual = bytes(c.role);
    const std::size_t size = elements == 0 ? 0 : actual.size() / elements;
    for (std::size_t i = 0; i < elements; ++i) {
      if (output.has_result(i)) continue;
      if (std::all_of(actual.begin() + static_cast<std::ptrdiff_t>(i * size),
                      actual.begin() + static_cast<std::ptrdiff_t>((i + 1) * size),
                      [](std::uint8_t byte) { return byte == poison; }))
        continue;
      text += name + ": element " + std::to_string(i) + " lies past a logical length and was written\n";
      break;
    }
  }
  return text;
}

}  // namespace regard::test
