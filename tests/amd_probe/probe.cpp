#include "amd_probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "emulator/numbers.h"

namespace regard::probe {
namespace {

using namespace emulator::hip;  // NOLINT: the tables

constexpr std::uint32_t number_of_transposed_read = std::size(matrices);

int bytes_of(Element element) {
  return element == Element::fp32 ? 4 : 2;
}

/// The type of a lane's numbers. The bf16 builtins that are older than clang's __bf16 take integers.
std::string operand_type(const Matrix& matrix) {
  const bool as_integers = matrix.families != cdna4;
  const char* const number = matrix.element == Element::fp32   ? "float"
                             : matrix.element == Element::fp16 ? "_Float16"
                             : as_integers                     ? "short"
                                                               : "__bf16";
  return matrix.layout.values == 1 ? number
                                   : fmt::format("{} __attribute__((vector_size({})))", number,
                                                 bytes_of(matrix.element) * matrix.layout.values);
}

/// A number that is exact in each of the types; so are the sums of products in fp32.
float small_number(int row, int column) {
  const auto mixed = static_cast<std::uint32_t>(row * 37 + column * 101 + 17) * 2654435761u;
  return static_cast<float>(mixed >> 29) - 3.0f;
}
float left_at(int row, int k) {
  return small_number(row, k);
}
float right_at(int k, int column) {
  return small_number(column + 64, k);
}
float addend_at(int row, int column) {
  return small_number(row + 128, column);
}

void put(std::vector<std::byte>& memory, std::size_t index, Element element, float value) {
  const std::uint32_t bits =
      element == Element::fp32
          ? std::bit_cast<std::uint32_t>(value)
          : emulator::encoded(element == Element::fp16 ? REGARD_FP16 : REGARD_BF16, value);
  const auto size = static_cast<std::size_t>(bytes_of(element));
  std::memcpy(memory.data() + index * size, &bits, size);
}

/// Memory of a device.
class Memory {
 public:
  static Result<Memory> with(const gpu::Device& device, std::span<const std::byte> content) {
    const auto bytes = static_cast<std::int64_t>(content.size());
    const Result<void*> made = gpu::allocate(device, bytes);
    if (!made) return tl::unexpected(made.error());
    Memory memory{{*made, [&device](void* data) { (void)gpu::release(device, data); }}};
    if (Status status = gpu::copy(device, *made, content.data(), bytes); !status)
      return tl::unexpected(status.error());
    return memory;
  }
  void* data() const { return data_.get(); }

 private:
  explicit Memory(std::shared_ptr<void> data) : data_(std::move(data)) {}
  std::shared_ptr<void> data_;
};

template <class T>
std::vector<std::byte> memory_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

bool has(const Chip& chip, const Matrix& matrix) {
  return (matrix.families & chip.family) != 0;
}
bool has_transposed_read(const Chip& chip) {
  return chip.family == cdna4;
}

std::string source_for(const Chip& chip) {
  std::string source = fmt::format(
      "typedef unsigned u32;\n"
      "template <class T> using LdsPointer = __attribute__((address_space(3))) T*;\n"
      "struct Arguments {{ const void *left, *right, *addend; void* result; u32 which; }};\n"
      "template <class T> __attribute__((device)) T of_lane(const void* memory) {{\n"
      "  return static_cast<const T*>(memory)[__builtin_amdgcn_workitem_id_x()];\n"
      "}}\n"
      "extern \"C\" __attribute__((global, amdgpu_flat_work_group_size({0}, {0}))) void {1}(Arguments x) {{\n"
      "  const u32 lane = __builtin_amdgcn_workitem_id_x();\n",
      chip.wave, symbol);
  for (std::uint32_t i = 0; i < std::size(matrices); ++i) {
    const Matrix& matrix = matrices[i];
    if (!has(chip, matrix)) continue;
    source += fmt::format(
        "  if (x.which == {}) {{\n"
        "    typedef {} Operand;\n"
        "    typedef float Sums __attribute__((vector_size({})));\n"
        "    static_cast<Sums*>(x.result)[lane] = __builtin_amdgcn_{}(\n"
        "        of_lane<Operand>(x.left), of_lane<Operand>(x.right), of_lane<Sums>(x.addend){});\n"
        "  }}\n",
        i, operand_type(matrix), 4 * matrix.layout.sums, matrix.name,
        matrix.name.starts_with("mfma") ? ", 0, 0, 0" : "");
  }
  if (has_transposed_read(chip)) {
    source += fmt::format(
        "  if (x.which == {}) {{\n"
        "    typedef short Four __attribute__((vector_size(8)));\n"
        "    *LdsPointer<Four>(8 * lane) = of_lane<Four>(x.left);\n"
        "    __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n"
        "    __builtin_amdgcn_s_barrier();\n"
        "    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
        "    static_cast<Four*>(x.result)[lane] =\n"
        "        __builtin_amdgcn_ds_read_tr16_b64_v4i16(LdsPointer<Four>(of_lane<u32>(x.right)));\n"
        "  }}\n",
        number_of_transposed_read);
  }
  return source + "}\n";
}

Result<Probe> Probe::load(const gpu::Device& device, const Chip& chip, std::vector<std::byte> code) {
  const gpu::Use use(device);
  if (!use.status()) return tl::unexpected(use.status().error());
  const Result<gpu::Function> function = gpu::Kernel(*device.backend, std::move(code), symbol).load(device);
  if (!function) return tl::unexpected(function.error());
  Probe probe;
  probe.device_ = &device;
  probe.chip_ = &chip;
  probe.function_ = *function;
  return probe;
}

struct Probe::Launch {
  std::uint32_t which;
  std::vector<std::byte> left, right, addend, result;
  std::function<std::string(std::span<const std::byte> result)> difference;
};

Result<std::string> Probe::run(const Launch& launch) const {
  const gpu::Use use(*device_);
  if (!use.status()) return tl::unexpected(use.status().error());
  struct {
    void* memory[4];
    std::uint32_t which;
  } arguments{{}, launch.which};
  std::vector<Memory> all;
  for (const auto* content : {&launch.left, &launch.right, &launch.addend, &launch.result}) {
    const Result<Memory> memory = Memory::with(*device_, *content);
    if (!memory) return tl::unexpected(memory.error());
    arguments.memory[all.size()] = memory->data();
    all.push_back(*memory);
  }
  constexpr std::int64_t lds_bytes = 8 * 64;
  void* parameters[] = {&arguments};
  Status status = gpu::launch(
      *device_, function_, {.blocks = 1, .threads = static_cast<int>(chip_->wave), .shared_bytes = lds_bytes},
      nullptr, parameters);
  if (status) status = gpu::wait(*device_, nullptr);
  std::vector<std::byte> result(launch.result.size());
  if (status)
    status = gpu::copy(*device_, result.data(), all.back().data(), static_cast<std::int64_t>(result.size()));
  if (!status) return tl::unexpected(status.error());
  return launch.difference(result);
}

Result<std::string> Probe::difference(const Matrix& matrix) const {
  const Layout& l = matrix.layout;
  const auto same = std::ranges::find(matrices, matrix.name, &Matrix::name);
  const auto lanes = static_cast<int>(chip_->wave);
  const auto operand_bytes = static_cast<std::size_t>(lanes * l.values * bytes_of(matrix.element));
  std::vector<float> addend(static_cast<std::size_t>(lanes * l.sums)), result(addend.size(), NAN);
  Launch launch{static_cast<std::uint32_t>(same - std::begin(matrices)),
                std::vector<std::byte>(operand_bytes),
                std::vector<std::byte>(operand_bytes),
                {},
                {},
                {}};
  for (int lane = 0; lane < lanes; ++lane) {
    const int line = lane % l.rows;
    const auto group = static_cast<std::size_t>(lane / l.rows);
    for (int i = 0; i < l.values; ++i) {
      const int k = l.depth_of[group][static_cast<std::size_t>(i)];
      const auto index = static_cast<std::size_t>(lane * l.values + i);
      put(launch.left, index, matrix.element, left_at(line, k));
      put(launch.right, index, matrix.element, right_at(k, line));
    }
    for (int i = 0; i < l.sums; ++i)
      addend[static_cast<std::size_t>(lane * l.sums + i)] =
          addend_at(l.row_of[group][static_cast<std::size_t>(i)], line);
  }
  launch.addend = memory_of(addend);
  launch.result = memory_of(result);
  launch.difference = [&](std::span<const std::byte> bytes) {
    std::memcpy(result.data(), bytes.data(), bytes.size());
    for (int lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < l.sums; ++i) {
        const int column = lane % l.rows,
                  row = l.row_of[static_cast<std::size_t>(lane / l.rows)][static_cast<std::size_t>(i)];
        float expected = addend_at(row, column);
        for (int k = 0; k < l.depth; ++k) expected += left_at(row, k) * right_at(k, column);
        const float sum = result[static_cast<std::size_t>(lane * l.sums + i)];
        if (sum != expected)
          return fmt::format("lane {} has {} as sum {}; by the table it is that of row {} and column {}, {}",
                             lane, sum, i, row, column, expected);
      }
    }
    return std::string();
  };
  return run(launch);
}

Result<std::string> Probe::difference(const TransposedTable& table) const {
  const auto lanes = static_cast<std::size_t>(chip_->wave);
  std::vector<std::uint16_t> numbers(4 * lanes), result(numbers.size(), 0xffff);
  std::vector<std::uint32_t> addresses(lanes);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint16_t>(i);
  // The order of the addresses is not that of the lanes.
  for (std::size_t lane = 0; lane < lanes; ++lane)
    addresses[lane] = static_cast<std::uint32_t>(8 * (lane * 37 % lanes));
  return run({number_of_transposed_read, memory_of(numbers), memory_of(addresses), std::vector<std::byte>(8),
              memory_of(result), [&](std::span<const std::byte> bytes) {
                std::memcpy(result.data(), bytes.data(), bytes.size());
                for (std::size_t lane = 0; lane < lanes; ++lane) {
                  for (std::size_t i = 0; i < 4; ++i) {
                    const std::size_t from = lane / 16 * 16 + table.lane_of[lane % 16][i];
                    const std::size_t expected = addresses[from] / 2 + table.number_of[lane % 16][i];
                    if (result[4 * lane + i] != expected)
                      return fmt::format("lane {} has {} as number {}; by the table it is {}, from lane {}",
                                         lane, result[4 * lane + i], i, expected, from);
                  }
                }
                return std::string();
              }});
}

}  // namespace regard::probe
