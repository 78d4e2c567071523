#include "support/case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "oracle/number.h"
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

}  // namespace

Case::Case(const std::string& text, const CaseOptions& options)
    : problem_(must(parse(text), text)), options_(options) {
  if (const Status status = validate(problem_); !status) must<int>(tl::unexpected(status.error()), text);
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const TensorSpec spec = tensor_spec(problem_, static_cast<regard_role>(i));
    if (spec.use == REGARD_UNUSED || spec.role == REGARD_SEED) continue;
    if (spec.role == REGARD_LENGTHS_Q && options.only_lengths_k) continue;
    allocate(spec);
  }
  // Lengths are drawn to be at most the physical ones, so the offsets come first.
  for (const regard_role role : {REGARD_OFFSETS_Q, REGARD_OFFSETS_K})
    if (arguments_.tensor[role].data) fill(tensor_spec(problem_, role));
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const TensorSpec spec = tensor_spec(problem_, static_cast<regard_role>(i));
    if (!arguments_.tensor[i].data || spec.use == REGARD_OUTPUT) continue;
    if (spec.role == REGARD_OFFSETS_Q || spec.role == REGARD_OFFSETS_K) continue;
    if (spec.role == REGARD_O || spec.role == REGARD_LSE) continue;
    fill(spec);
  }
  if (options.nan_behind) set_rows_behind_sequences_to_nan();
  arguments_.seed = 0x123456789abcdef0 + options.seed;
  arguments_.offset = 0xfedcba9876543210;
  if (problem_.pass == Pass::bwd && options.forward_inputs) compute_forward_inputs();
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
      if (i == nearest || tensor.shape[i] == 1) continue;
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
    case REGARD_ALIBI:
    case REGARD_DESCALE_Q:
    case REGARD_DESCALE_K:
    case REGARD_DESCALE_V:
      values = uniform(random, n, 0.25, 1.25);
      break;
    case REGARD_Q:
      values = normal(random, n, options_.q_scale);
      break;
    case REGARD_V:
      values = normal(random, n, 1);
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
      values = normal(random, n, 1);
  }
  each_element(spec.role, [&](std::int64_t i, std::int64_t offset) {
    oracle::encode(tensor.dtype, tensor.data, offset, values[static_cast<std::size_t>(i)]);
  });
  if (options_.numbers) fill_from_numbers(spec.role);
  if (spec.role == REGARD_Q) set_row_to_nan(spec.role, options_.nan_row);
  if (spec.role == REGARD_K) set_row_to_nan(spec.role, options_.nan_key);
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
  each_side(REGARD_OFFSETS_K, REGARD_LENGTHS_K, problem_.sk, std::array{REGARD_K, REGARD_V});
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
  oracle::encode(tensor.dtype, tensor.data, offset_of(role, flat), value);
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
    if (tensor_spec(problem_, role).use == REGARD_OUTPUT) poison_tensor(role);
  }
}

void Case::compute_forward_inputs(int threads) {
  Problem forward = problem_;
  forward.pass = Pass::fwd;
  forward.lse = true;
  forward.dbias = forward.deterministic = false;
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

std::string Case::mistakes(const oracle::Outputs& expected, bool sampled) const {
  std::string text;
  char line[320];
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
    if (sampled) continue;
    const oracle::Output& output = expected.at(c.role);
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
