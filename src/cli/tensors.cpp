#include "cli/tensors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

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

void fill_floats(const Tensor& tensor, const Random& random) {
  const std::int64_t count = elements_of(tensor);
  const Element element = element_of(tensor.dtype);
  switch (size_of(tensor)) {
    case 4:
      for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(tensor.data)[i] = random.normal(i);
      return;
    case 2:
      for (std::int64_t i = 0; i < count; ++i) {
        static_cast<std::uint16_t*>(tensor.data)[i] =
            static_cast<std::uint16_t>(narrow(element, random.normal(i)));
      }
      return;
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        static_cast<std::uint8_t*>(tensor.data)[i] =
            static_cast<std::uint8_t>(narrow(element, random.normal(i)));
      }
  }
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

/// Factors in [0.5, 1.5).
void fill_descale(const Tensor& tensor, const Random& random) {
  for (std::int64_t i = 0; i < elements_of(tensor); ++i) {
    static_cast<float*>(tensor.data)[i] = 0.5f + static_cast<float>(random.whole(i, 1023)) / 1024.0f;
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

void fill_random(const Tensor& tensor, regard_role role, std::uint64_t seed, std::int64_t sk) {
  const Random random(seed, role);
  switch (role) {
    case REGARD_ALIBI:
      return fill_slopes(tensor);
    case REGARD_DESCALE_Q:
    case REGARD_DESCALE_K:
    case REGARD_DESCALE_V:
      return fill_descale(tensor, random);
    case REGARD_RANGES:
      return fill_ranges(tensor, random, sk);
    case REGARD_BITS:
      return fill_bits(tensor, random);
    default:
      return fill_floats(tensor, random);
  }
}

const std::vector<std::int32_t>* sequence_numbers(regard_role role, const Sequences& sequences) {
  switch (role) {
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

/// The file's shape, where that is allowed: `ranges`, `bits` and `bias` can be broadcast over some
/// dimensions, which are then 1.
Tensor broadcast_as(Tensor expected, regard_role role, std::span<const std::int64_t> shape) {
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

}  // namespace

Tensors::Tensors(const Problem& problem, const Sequences& sequences,
                 const std::map<regard_role, LoadedArray>& files, bool convert, std::uint64_t seed) {
  const std::int64_t sk = fields_of(problem).sk;
  arguments_.dropout(seed);
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    const auto [use, expected] = problem.expected(role);
    const auto file = files.find(role);
    const std::vector<std::int32_t>* numbers = sequence_numbers(role, sequences);
    if (use == REGARD_UNUSED) continue;
    if (use != REGARD_OUTPUT && file != files.end()) {
      read(role, expected, file->second, convert);
    } else if (use != REGARD_OUTPUT && numbers != nullptr && !numbers->empty()) {
      allocate(role, expected);
      std::memcpy(arguments_[role].data, numbers->data(), numbers->size() * sizeof(std::int32_t));
    } else if (use != REGARD_OPTIONAL_INPUT) {
      allocate(role, expected);
      const bool computed = use == REGARD_OUTPUT || role == REGARD_O || role == REGARD_LSE;
      if (!computed) fill_random(arguments_[role], role, seed, sk);
    }
  }
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
