#include "cli/tensors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/parallel_for.h"
#include "cli/failure.h"
#include "cli/random.h"

namespace regard::cli {
namespace {

std::size_t size_of(const Tensor& tensor) {
  return static_cast<std::size_t>(info(element_of(tensor.dtype)).bytes);
}

std::span<const std::int64_t> shape_of(const Tensor& tensor) {
  return {tensor.shape, static_cast<std::size_t>(tensor.rank)};
}

std::int64_t elements_of(const Tensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape_of(tensor)) count *= size;
  return count;
}

/// Calls each(offset of the row in elements, row-major index of its first element) for every row along the
/// last dimension, which is contiguous.
template <class Each>
void for_each_row(const Tensor& tensor, const Each& each) {
  const std::int64_t columns = tensor.shape[tensor.rank - 1];
  if (elements_of(tensor) == 0) return;
  std::int64_t index[4] = {};
  for (std::int64_t row = 0;; ++row) {
    std::int64_t offset = 0;
    for (int i = 0; i + 1 < tensor.rank; ++i) offset += index[i] * tensor.strides[i];
    each(offset, row * columns);
    int i = tensor.rank - 2;
    while (i >= 0 && ++index[i] == tensor.shape[i]) index[i--] = 0;
    if (i < 0) return;
  }
}

/// int8 has factors of about 1 / 32.
constexpr float integer_unit = 32;

void fill_integers(const Tensor& tensor, const Random& random) {
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    const float number = std::nearbyint(std::clamp(random.normal(i) * integer_unit, -128.0f, 127.0f));
    static_cast<std::int8_t*>(tensor.data)[i] = static_cast<std::int8_t>(number);
  }
}

/// The elements from `first` to before `last`.
void fill_floats(const Tensor& tensor, const Random& random, std::int64_t first, std::int64_t last) {
  const Element element = element_of(tensor.dtype);
  switch (size_of(tensor)) {
    case 4:
      for (std::int64_t i = first; i < last; ++i) static_cast<float*>(tensor.data)[i] = random.normal(i);
      return;
    case 2:
      for (std::int64_t i = first; i < last; ++i) {
        static_cast<std::uint16_t*>(tensor.data)[i] =
            static_cast<std::uint16_t>(narrow(element, random.normal(i)));
      }
      return;
    default:
      for (std::int64_t i = first; i < last; ++i) {
        static_cast<std::uint8_t*>(tensor.data)[i] =
            static_cast<std::uint8_t>(narrow(element, random.normal(i)));
      }
  }
}

/// On all cores, as a number depends on its index alone.
void fill_floats(const Tensor& tensor, const Random& random) {
  if (tensor.dtype == REGARD_INT8) return fill_integers(tensor, random);
  constexpr std::int64_t piece = 1 << 20;
  const std::int64_t count = elements_of(tensor), pieces = (count + piece - 1) / piece;
  parallel_for(static_cast<std::size_t>(pieces), std::thread::hardware_concurrency(), [&](std::size_t i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * piece;
    fill_floats(tensor, random, first, std::min(first + piece, count));
  });
}

/// The slopes of the ALiBi paper: 2^(-8/hq), 2^(-16/hq), ...
void fill_slopes(const Tensor& tensor) {
  const std::int64_t heads = tensor.shape[tensor.rank - 1];
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    const double head = static_cast<double>(i % heads + 1);
    static_cast<float*>(tensor.data)[i] =
        static_cast<float>(std::exp2(-8.0 * head / static_cast<double>(heads)));
  }
}

/// Factors in [0.5, 1.5), or those of `unit` times larger numbers.
void fill_descale(const Tensor& tensor, const Random& random, float unit) {
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    static_cast<float*>(tensor.data)[i] = (0.5f + static_cast<float>(random.whole(i, 1023)) / 1024.0f) / unit;
  }
}

/// A quarter of the parts is empty.
void fill_lse(const Tensor& tensor, const Random& random) {
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    static_cast<float*>(tensor.data)[i] = random.bits(i) % 4 == 0 ? -INFINITY : random.normal(i);
  }
}

/// Angles of the usual frequencies.
void fill_rope(const Tensor& tensor, bool cosine) {
  const std::int64_t columns = tensor.shape[1];
  const Element element = element_of(tensor.dtype);
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    const std::int64_t row = i / columns;
    const double frequency =
                     std::pow(10000, -static_cast<double>(i % columns) / static_cast<double>(columns)),
                 angle = static_cast<double>(row) * frequency;
    const auto value = static_cast<float>(cosine ? std::cos(angle) : std::sin(angle));
    if (element == Element::f32)
      static_cast<float*>(tensor.data)[i] = value;
    else
      static_cast<std::uint16_t*>(tensor.data)[i] = static_cast<std::uint16_t>(narrow(element, value));
  }
}

/// `after`: further positions that follow each number.
void fill_positions(const Tensor& tensor, const Random& random, std::int64_t rows, std::int64_t after) {
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    static_cast<std::int32_t*>(tensor.data)[i] =
        static_cast<std::int32_t>(random.whole(i, std::max<std::int64_t>(rows - 1 - after, 0)));
  }
}

void fill_slots(const Tensor& tensor, const std::vector<std::int64_t>& slots) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (tensor.dtype == REGARD_INT64)
      static_cast<std::int64_t*>(tensor.data)[i] = slots[i];
    else
      static_cast<std::int32_t*>(tensor.data)[i] = static_cast<std::int32_t>(slots[i]);
  }
}

/// [lo, hi) with 0 <= lo <= hi <= sk.
void fill_ranges(const Tensor& tensor, const Random& random, std::int64_t sk) {
  auto* bounds = static_cast<std::int32_t*>(tensor.data);
  for (std::int64_t row = 0; row < elements_of(tensor) / 2; ++row) {
    const std::int64_t low = random.whole(2 * row, sk);
    bounds[2 * row] = static_cast<std::int32_t>(low);
    bounds[2 * row + 1] = static_cast<std::int32_t>(low + random.whole(2 * row + 1, sk - low));
  }
}

/// Three of four keys are visible.
void fill_bits(const Tensor& tensor, const Random& random) {
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    const std::uint64_t draw = random.bits(i);
    static_cast<std::uint32_t*>(tensor.data)[i] = static_cast<std::uint32_t>(draw | draw >> 32);
  }
}

bool is_captured(regard_role role) {
  return role >= REGARD_CAPTURED_0 && role <= REGARD_CAPTURED_7;
}

/// Numbers such as those of documents, or conditions.
void fill_whole(const Tensor& tensor, const Random& random) {
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    if (tensor.dtype == REGARD_UINT8)
      static_cast<std::uint8_t*>(tensor.data)[i] = random.whole(i, 3) > 0 ? 1 : 0;
    else
      static_cast<std::int32_t*>(tensor.data)[i] = static_cast<std::int32_t>(random.whole(i, 7));
  }
}

/// `unit`: what 1 is in K and V before their factors.
void fill_random(const Tensor& tensor, regard_role role, std::uint64_t seed, std::int64_t sk, float unit) {
  const Random random(seed, role);
  if (is_captured(role) && tensor.dtype != REGARD_FP32) return fill_whole(tensor, random);
  switch (role) {
    case REGARD_ALIBI:
      return fill_slopes(tensor);
    case REGARD_DESCALE_Q:
    case REGARD_DESCALE_K:
    case REGARD_DESCALE_V:
      return fill_descale(tensor, random, unit);
    case REGARD_LSE:
    case REGARD_PARTIAL_LSE:
      return fill_lse(tensor, random);
    case REGARD_ROPE_COS:
    case REGARD_ROPE_SIN:
      return fill_rope(tensor, role == REGARD_ROPE_COS);
    case REGARD_RANGES:
      return fill_ranges(tensor, random, sk);
    case REGARD_BITS:
      return fill_bits(tensor, random);
    default:
      return fill_floats(tensor, random);
  }
}

/// Where the numbers of a role come from that are not random by themselves; null: from nowhere.
const std::vector<std::int32_t>* sequence_numbers(regard_role role, const Sequences& sequences) {
  switch (role) {
    case REGARD_OFFSETS_NEW:
      return &sequences.cache.offsets_new;
    case REGARD_LEFT_PADDING:
      return &sequences.cache.left_padding;
    case REGARD_CACHE_INDEX:
      return &sequences.cache.cache_index;
    case REGARD_PAGE_TABLE:
      return &sequences.cache.page_table;
    case REGARD_PAGE_OFFSETS:
      return &sequences.cache.page_offsets;
    case REGARD_PAGE_LIST:
      return &sequences.cache.page_list;
    case REGARD_LAST_PAGE_LENGTHS:
      return &sequences.cache.last_page_lengths;
    case REGARD_OFFSETS_Q:
      return &sequences.q.offsets;
    case REGARD_OFFSETS_K:
      return &sequences.k.offsets;
    case REGARD_LENGTHS_Q:
      return &sequences.q.lengths;
    case REGARD_LENGTHS_K:
      return &sequences.k.lengths;
    default:
      return nullptr;
  }
}

/// The same tensor, row-major, with another shape of its rank.
Tensor with_shape(Tensor tensor, const std::int64_t* shape) {
  std::int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    stride *= shape[i];
  }
  return tensor;
}

/// The file's shape, where that is allowed: `ranges`, `bits` and `bias` can be broadcast over some
/// dimensions, which are then 1; tensors that functions read can have any sizes.
Tensor broadcast_as(Tensor expected, regard_role role, std::span<const std::int64_t> shape) {
  if (is_captured(role) && static_cast<std::int32_t>(shape.size()) == expected.rank)
    return with_shape(expected, shape.data());
  const bool ranges = role == REGARD_RANGES && expected.rank == 3,
             scores = role == REGARD_BITS || role == REGARD_BIAS;
  if ((!ranges && !scores) || static_cast<std::int32_t>(shape.size()) != expected.rank) return expected;
  for (int i = 0; i < (ranges ? 1 : 3); ++i) {
    if (shape[i] == 1) expected.shape[i] = 1;
  }
  std::int64_t stride = 1;
  for (int i = expected.rank - 1; i >= 0; --i) {
    expected.strides[i] = stride;
    stride *= expected.shape[i];
  }
  return expected;
}

/// How a file of another type can be used anyway.
std::string_view advice_for(regard_role role, Element from, Element to) {
  if (is_float(from) != is_float(to)) return "";
  if (!is_float(to)) return "; --convert takes it if all values fit";
  if (role == REGARD_BIAS && from == Element::f32)
    return "; bias_type=fp32 takes it as it is, and --convert rounds it";
  return "; --convert rounds it";
}

/// The elements of one row of K or V of a KV cache, as bytes: runs of `size` that are `step` apart.
template <class Each>
void for_each_run(const Tensor& tensor, regard_role role, const Fields& fields, const DrawnCache::Row& row,
                  std::int64_t head, const Each& each) {
  const auto size = static_cast<std::int64_t>(size_of(tensor));
  auto* const data = static_cast<std::byte*>(tensor.data);
  const std::int64_t columns =
      fields.vectorized ? role == REGARD_K ? fields.d : fields.dv : tensor.shape[tensor.rank - 1];
  if (!fields.vectorized) {  // [.., rows, hk, columns]
    each(data +
             (row.batch * tensor.strides[0] + row.row * tensor.strides[1] + head * tensor.strides[2]) * size,
         columns * size);
    return;
  }
  const std::int64_t together = 16 / size;
  std::byte* const start = data + (row.batch * tensor.strides[0] + head * tensor.strides[1]) * size;
  for (std::int64_t c = 0; c < columns; c += role == REGARD_K ? together : 1) {
    if (role == REGARD_K)  // [pages, hk, d/x, page*x]
      each(start + (c / together * tensor.strides[2] + row.row * together) * size, together * size);
    else  // [pages, hk, page/x, dv*x]
      each(start + (row.row / together * tensor.strides[2] + c * together + row.row % together) * size, size);
  }
}

/// Rows that a call does not read, and their factors, become NaN, or the lowest number of int8.
void hide_rows(const Arguments& arguments, const Fields& fields, const DrawnCache& cache) {
  const std::int64_t rows = fields.paged > 0 ? fields.paged : fields.sk,
                     all = arguments[REGARD_K].shape[0] * rows;
  std::vector<bool> read(static_cast<std::size_t>(all));
  for (const DrawnCache::Row& row : cache.rows)
    read[static_cast<std::size_t>(row.batch * rows + row.row)] = true;
  for (const regard_role role : {REGARD_K, REGARD_V, REGARD_K_ROPE}) {
    const Tensor& tensor = arguments[role];
    if (tensor.data == nullptr) continue;
    const int byte = tensor.dtype == REGARD_INT8 ? 0x80 : 0xff;
    const bool fnuz = tensor.dtype == REGARD_FP8_FNUZ || tensor.dtype == REGARD_FP8_E5M2_FNUZ;
    const Tensor& of_factors = arguments[role == REGARD_V ? REGARD_DESCALE_V : REGARD_DESCALE_K];
    auto* const factors = static_cast<float*>(of_factors.data);
    for (std::int64_t i = 0; i < all; ++i) {
      if (read[static_cast<std::size_t>(i)]) continue;
      for (std::int64_t head = 0; head < fields.hk; ++head) {
        for_each_run(tensor, role, fields, {i / rows, i % rows}, head,
                     [&](std::byte* run, std::int64_t bytes) {
                       std::memset(run, fnuz ? 0x80 : byte, static_cast<std::size_t>(bytes));
                     });
        if (!fields.factors_of_tokens || factors == nullptr) continue;
        const std::int64_t count = elements_of(of_factors) / (all * fields.hk);  // of each row
        std::fill_n(factors + (i * fields.hk + head) * count, count, NAN);
      }
    }
  }
}

/// O of empty parts is never read.
void hide_empty_parts(const Tensor& o, const Tensor& lse) {
  const std::int64_t tokens = o.shape[1], heads = o.shape[2], columns = o.shape[3];
  const auto row_bytes = static_cast<std::size_t>(columns) * size_of(o);
  for (std::int64_t i = 0; i < elements_of(lse); ++i) {  // [parts, heads, tokens]
    if (!std::isinf(static_cast<const float*>(lse.data)[i])) continue;
    const std::int64_t token = i % tokens, head = i / tokens % heads, part = i / tokens / heads;
    auto* const row = static_cast<std::byte*>(o.data) +
                      static_cast<std::size_t>((part * tokens + token) * heads + head) * row_bytes;
    std::memset(row, 0xff, row_bytes);
  }
}

/// The tensors that say where the keys of a cache are come from files together, as random ones would not fit.
void refuse_some_numbers(const Problem& problem, const std::map<regard_role, LoadedArray>& files) {
  constexpr regard_role numbers[] = {REGARD_PAGE_TABLE,   REGARD_PAGE_OFFSETS,      REGARD_PAGE_LIST,
                                     REGARD_CACHE_INDEX,  REGARD_LAST_PAGE_LENGTHS, REGARD_OFFSETS_NEW,
                                     REGARD_LEFT_PADDING, REGARD_LENGTHS_K};
  std::string given, missing;
  for (const regard_role role : numbers) {
    const regard_use use = problem.expected(role).use;
    if (use == REGARD_UNUSED) continue;
    if (files.contains(role)) {
      if (role != REGARD_LENGTHS_K) given = regard_role_name(role);
    } else if (use != REGARD_OPTIONAL_INPUT || role == REGARD_LENGTHS_K) {
      missing = regard_role_name(role);
    }
  }
  if (given.empty() || missing.empty()) return;
  fail_with(
      fmt::format("{} says where the keys of the cache are, together with {}: give both as files, or neither",
                  given, missing));
}

}  // namespace

Tensors::Tensors(const Problem& problem, const Sequences& sequences,
                 const std::map<regard_role, LoadedArray>& files, bool convert, std::uint64_t seed) {
  const Fields fields = fields_of(problem);
  const float unit = problem.expected(REGARD_K).tensor.dtype == REGARD_INT8 ? integer_unit : 1;
  if (fields.is_cache()) refuse_some_numbers(problem, files);
  bool given_cache = false;
  arguments_.dropout(seed);
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    auto [use, expected] = problem.expected(role);
    const auto file = files.find(role);
    const std::vector<std::int32_t>* numbers = sequence_numbers(role, sequences);
    if (use == REGARD_UNUSED) continue;
    if (role >= REGARD_GRAD_CAPTURED_0 && role <= REGARD_GRAD_CAPTURED_7) {
      const int captured = REGARD_CAPTURED_0 + role - REGARD_GRAD_CAPTURED_0;
      expected = with_shape(expected, arguments_[static_cast<regard_role>(captured)].shape);
    }
    if (use != REGARD_OUTPUT && file != files.end()) {
      given_cache |= numbers != nullptr || role == REGARD_K || role == REGARD_V || role == REGARD_K_ROPE;
      read(role, expected, file->second, convert);
    } else if (use != REGARD_OUTPUT && numbers != nullptr && !numbers->empty()) {
      if (role == REGARD_PAGE_LIST) expected.shape[0] = std::ssize(*numbers);
      allocate(role, expected);
      std::memcpy(arguments_[role].data, numbers->data(), numbers->size() * sizeof(std::int32_t));
    } else if (use != REGARD_OPTIONAL_INPUT) {
      allocate(role, expected);
      const bool computed =
          use == REGARD_OUTPUT || (use == REGARD_INPUT && (role == REGARD_O || role == REGARD_LSE));
      const Tensor& tensor = arguments_[role];
      if (role == REGARD_SLOTS) {
        fill_slots(tensor, sequences.cache.slots);
      } else if (role == REGARD_POSITIONS) {
        fill_positions(tensor, Random(seed, role), problem.expected(REGARD_ROPE_COS).tensor.shape[0],
                       fields.first_positions ? std::max(fields.snew, fields.sq) - 1 : 0);
      } else if (!computed) {
        fill_random(tensor, role, seed, fields.sk, unit);
      }
    }
  }
  if (fields.is_cache() && fields.pass == "fwd" && !given_cache)
    hide_rows(arguments_, fields, sequences.cache);
  const bool drawn_parts = !files.contains(REGARD_PARTIAL_O) && !files.contains(REGARD_PARTIAL_LSE);
  if (fields.pass == "merge" && drawn_parts)
    hide_empty_parts(arguments_[REGARD_PARTIAL_O], arguments_[REGARD_PARTIAL_LSE]);
}

void Tensors::allocate(regard_role role, const Tensor& expected) {
  const std::optional<std::int64_t> size = bytes_of(element_of(expected.dtype), shape_of(expected));
  const std::int64_t machine = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  if (!size || *size > machine - bytes_) {
    throw error(
        REGARD_NO_MEMORY,
        fmt::format("the tensors of this problem, up to {} {}, need more than the {:.1f} GiB of this machine",
                    regard_role_name(role), shape_text(shape_of(expected)),
                    static_cast<double>(machine) / (1 << 30)));
  }
  const std::size_t padded = (static_cast<std::size_t>(*size) + 64) / 64 * 64;
  memory_.emplace_back(std::aligned_alloc(64, padded));
  if (memory_.back() == nullptr) {
    throw error(REGARD_NO_MEMORY,
                fmt::format("not enough memory for {}: {} bytes", regard_role_name(role), *size));
  }
  std::memset(memory_.back().get(), 0xff, padded);  // NaN; in fnuz types the lowest number
  Tensor tensor = expected;
  tensor.data = memory_.back().get();
  arguments_.set(role, tensor);
  bytes_ += *size;
}

void Tensors::read(regard_role role, const Tensor& expected, const LoadedArray& loaded, bool with_convert) {
  const ArrayView& array = loaded.array;
  const Tensor required = broadcast_as(expected, role, array.shape);
  const Element element = element_of(required.dtype);
  if (!std::ranges::equal(array.shape, shape_of(required)) ||
      (!with_convert && !same_bits(array.element, element))) {
    const bool shape_fits = std::ranges::equal(array.shape, shape_of(required));
    const std::string_view advice = shape_fits ? advice_for(role, array.element, element) : "";
    fail_with(fmt::format("{}: it holds {} {}, but {} of this problem is {} {}{}", loaded.path,
                          info(array.element).name, shape_text(array.shape), regard_role_name(role),
                          info(element).name, shape_text(shape_of(required)), advice));
  }
  allocate(role, required);
  std::vector<std::byte> elements(static_cast<std::size_t>(elements_of(required)) * size_of(required));
  value_of(convert(array.element, loaded.elements(), element, elements), loaded.path);
  write_row_major(role, elements.data());
}

void Tensors::write_row_major(regard_role role, const std::byte* elements) {
  const Tensor& tensor = arguments_[role];
  const std::size_t size = size_of(tensor);
  const std::size_t row_bytes = static_cast<std::size_t>(tensor.shape[tensor.rank - 1]) * size;
  for_each_row(tensor, [&](std::int64_t offset, std::int64_t index) {
    std::memcpy(static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(offset) * size,
                elements + static_cast<std::size_t>(index) * size, row_bytes);
  });
}

std::vector<std::byte> Tensors::row_major(regard_role role) const {
  const Tensor& tensor = arguments_[role];
  const std::size_t size = size_of(tensor);
  const std::size_t row_bytes = static_cast<std::size_t>(tensor.shape[tensor.rank - 1]) * size;
  std::vector<std::byte> elements(static_cast<std::size_t>(elements_of(tensor)) * size);
  for_each_row(tensor, [&](std::int64_t offset, std::int64_t index) {
    std::memcpy(elements.data() + static_cast<std::size_t>(index) * size,
                static_cast<const std::byte*>(tensor.data) + static_cast<std::size_t>(offset) * size,
                row_bytes);
  });
  return elements;
}

std::vector<OutputArray> outputs_of(const Problem& problem, const Tensors& tensors, bool with_convert) {
  std::vector<OutputArray> outputs;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    const regard_use use = problem.expected(role).use;
    if (use != REGARD_OUTPUT && use != REGARD_INPUT_OUTPUT) continue;
    const Tensor& tensor = tensors.arguments()[role];
    OutputArray output{regard_role_name(role),
                       element_of(tensor.dtype),
                       {shape_of(tensor).begin(), shape_of(tensor).end()},
                       tensors.row_major(role)};
    if (with_convert && output.element != Element::f32 && output.element != Element::u8) {
      std::vector<std::byte> floats(static_cast<std::size_t>(elements_of(tensor)) * sizeof(float));
      value_of(convert(output.element, output.bytes, Element::f32, floats), output.name);
      output.element = Element::f32;
      output.bytes = std::move(floats);
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace regard::cli
