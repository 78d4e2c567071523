// Matrix products and the instructions that load their operands.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "emulator/instructions.h"
#include "emulator/numbers.h"
#include "emulator/tensor_map.h"

namespace emulator {
namespace {

using Instruction = ptx::Instruction;

/// The value of one or two bytes.
std::uint32_t number_at(const std::uint8_t* place, std::size_t bytes) {
  std::uint16_t bits = *place;
  if (bytes == 2) std::memcpy(&bits, place, 2);
  return bits;
}

/// What a lane provides to ldmatrix and stmatrix, which move 8 x 8 matrices.
struct MatrixRow {
  Execution* execution;
  std::uint8_t* row;
  const std::vector<ptx::Operand>* registers;
};

MatrixRow& lane(void* const* of_lanes, std::size_t number) {
  return *static_cast<MatrixRow*>(of_lanes[number]);
}

/// The row of 16 bytes whose address lane 8 * matrix + row gave.
std::uint8_t* row_of(void* const* of_lanes, std::size_t matrix, std::size_t row) {
  return lane(of_lanes, 8 * matrix + row).row;
}

template <bool transposed>
void ldmatrix(Execution& e, const Instruction& i) {
  const auto from = static_cast<std::uint32_t>(e.get(i.operands[1]));
  if (from % 16 != 0) throw std::runtime_error("ldmatrix of a row at an address that is no multiple of 16");
  MatrixRow mine{&e, e.launch().shared(from, 16), &i.operands[0].parts};
  e.launch().with_warp(&i, &mine, [](void* const* of_lanes) {
    for (std::size_t l = 0; l < 32; ++l) {
      for (std::size_t matrix = 0; matrix < 4; ++matrix) {
        std::uint32_t both = 0;
        for (std::size_t j = 0; j < 2; ++j) {
          const std::size_t row = transposed ? 2 * (l % 4) + j : l / 4,
                            column = transposed ? l / 4 : 2 * (l % 4) + j;
          both |= number_at(row_of(of_lanes, matrix, row) + 2 * column, 2) << 16 * j;
        }
        lane(of_lanes, l).execution->set((*lane(of_lanes, l).registers)[matrix], both);
      }
    }
  });
}

template <bool transposed>
void stmatrix(Execution& e, const Instruction& i) {
  const auto to = static_cast<std::uint32_t>(e.get(i.operands[0]));
  if (to % 16 != 0) throw std::runtime_error("stmatrix of a row at an address that is no multiple of 16");
  MatrixRow mine{&e, e.launch().shared(to, 16), &i.operands[1].parts};
  e.launch().with_warp(&i, &mine, [](void* const* of_lanes) {
    for (std::size_t l = 0; l < 32; ++l) {
      for (std::size_t matrix = 0; matrix < 4; ++matrix) {
        const auto both = static_cast<std::uint32_t>(
            lane(of_lanes, l).execution->get((*lane(of_lanes, l).registers)[matrix]));
        if constexpr (transposed) {
          for (std::size_t n = 0; n < 2; ++n) {
            const auto one = static_cast<std::uint16_t>(both >> 16 * n);
            std::memcpy(row_of(of_lanes, matrix, 2 * (l % 4) + n) + 2 * (l / 4), &one, sizeof one);
          }
        } else {
          std::memcpy(row_of(of_lanes, matrix, l / 4) + 4 * (l % 4), &both, sizeof both);
        }
      }
    }
  });
}

regard_dtype type_of(std::string_view word) {
  if (word == "bf16") return REGARD_BF16;
  if (word == "f16") return REGARD_FP16;
  if (word == "e4m3") return REGARD_FP8;
  if (word == "e5m2") return REGARD_FP8_E5M2;
  throw std::runtime_error(fmt::format("products of '{}' are not emulated", word));
}

/// The words between dots.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t end = name.find('.');
    words.push_back(name.substr(0, end));
    name = end == std::string_view::npos ? "" : name.substr(end + 1);
  }
  return words;
}

/// "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": sums, left operand, right operand, previous sums.
void multiply(Execution& e, const Instruction& i) {
  struct Lane {
    std::uint32_t left[4], right[2];
    float sums[4];
  } mine{};
  for (std::size_t n = 0; n < i.operands[1].parts.size(); ++n)
    mine.left[n] = static_cast<std::uint32_t>(e.get(i.operands[1].parts[n]));
  for (std::size_t n = 0; n < i.operands[2].parts.size(); ++n)
    mine.right[n] = static_cast<std::uint32_t>(e.get(i.operands[2].parts[n]));
  for (std::size_t n = 0; n < 4; ++n) mine.sums[n] = e.get_float(i.operands[3].parts[n]);
  e.launch().with_warp(&i, &mine, [&i](void* const* of_lanes) {
    const regard_dtype type = type_of(words_of(i.name)[7]);
    const std::size_t deep = 8 * i.operands[2].parts.size();
    float left[16][16], right[16][8];
    for (std::size_t l = 0; l < 32; ++l) {
      const Lane& from = *static_cast<Lane*>(of_lanes[l]);
      for (std::size_t k = 0; k < deep; ++k) {
        if (k % 8 / 2 != l % 4) continue;
        for (std::size_t half = 0; half < 2; ++half)
          left[l / 4 + 8 * half][k] = decoded(type, from.left[2 * (k / 8) + half] >> 16 * (k % 2) & 0xffff);
        right[k][l / 4] = decoded(type, from.right[k / 8] >> 16 * (k % 2) & 0xffff);
      }
    }
    for (std::size_t l = 0; l < 32; ++l) {
      Lane& to = *static_cast<Lane*>(of_lanes[l]);
      for (std::size_t n = 0; n < 4; ++n) {
        const std::size_t row = l / 4 + 8 * (n / 2), column = 2 * (l % 4) + n % 2;
        for (std::size_t k = 0; k < deep; ++k) to.sums[n] += left[row][k] * right[k][column];
      }
    }
  });
  for (std::size_t n = 0; n < 4; ++n) e.set_float(i.operands[0].parts[n], mine.sums[n]);
}

std::size_t warpgroup_of(const Thread& thread) {
  return thread.position.thread.x / ProductQueue::threads;
}

/// Sums, left operand, right operand, whether it adds, and signs, which are all 1 here.
void issue(Execution& e, const Instruction& i) {
  Thread& thread = e.thread();
  ProductQueue& queue = thread.block->products[warpgroup_of(thread)];
  const std::uint64_t number = thread.products_issued++;
  ProductPart& part = queue.part(thread, number, i);
  part.sums.clear();
  part.registers = {};  // the registers of an earlier product are not operands of this one
  part.left = 0;
  for (const ptx::Operand& sum : i.operands[0].parts) part.sums.push_back(static_cast<float*>(e.place(sum)));
  if (i.operands[1].kind == ptx::Operand::Kind::vector) {
    for (std::size_t n = 0; n < 4; ++n)
      part.registers[n] = static_cast<std::uint32_t>(e.get(i.operands[1].parts[n]));
  } else {
    part.left = e.get(i.operands[1]);
  }
  part.right = e.get(i.operands[2]);
  part.adds = e.get(i.operands[3]) != 0;
  for (std::size_t n = 4; n < 6; ++n)
    if (e.get(i.operands[n]) != 1) throw std::runtime_error("a negative product is not emulated");
  queue.issued(e.launch(), *thread.block, number);
}
void commit(Execution& e, const Instruction&) {
  e.thread().product_groups.push_back(e.thread().products_issued);
}
void wait(Execution& e, const Instruction& i) {
  Thread& thread = e.thread();
  std::uint64_t count = 0;
  while (thread.product_groups.size() > e.get(i.operands[0])) {
    count = thread.product_groups.front();
    thread.product_groups.pop_front();
  }
  const ProductQueue& queue = thread.block->products[warpgroup_of(thread)];
  e.launch().wait("wgmma.wait_group", [&queue, count] { return queue.done() >= count; });
}

/// An operand in shared memory, as described by a descriptor: swizzled rows of 128 bytes in groups of eight.
class Tile {
 public:
  Tile(std::uint64_t descriptor, const std::vector<std::uint8_t>& memory)
      : memory_(memory),
        start_(static_cast<std::uint32_t>(descriptor & 0x3fff) << 4),
        leading_(static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4),
        eight_rows_(static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4) {
    if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0)
      throw std::runtime_error(
          "an operand that is not swizzled by 128 bytes, or begins within eight rows, is not emulated");
  }
  /// Rows of k.
  const std::uint8_t* at(std::uint32_t row, std::uint32_t byte) const {
    return place(row / 8 * eight_rows_ + row % 8 * 128 + byte);
  }
  /// Rows are k, with 64 columns of 16 bits; blocks of columns are `leading` apart.
  const std::uint8_t* transposed(std::uint32_t k, std::uint32_t column) const {
    return place(column / 64 * leading_ + k / 8 * eight_rows_ + k % 8 * 128 + column % 64 * 2);
  }

 private:
  const std::uint8_t* place(std::uint32_t behind) const {
    const std::uint32_t at = swizzled(start_ + behind);
    if (at + 2 > memory_.size())
      throw std::runtime_error("an operand of a product ends outside of shared memory");
    return memory_.data() + at;
  }

  const std::vector<std::uint8_t>& memory_;
  std::uint32_t start_, leading_, eight_rows_;
};

/// The same bits with AVX2 as without it: this adds no fused multiply-add.
#ifdef __x86_64__
[[gnu::target_clones("avx2", "default")]]
#endif
void multiply_row(const float* left, const std::vector<float>& right, std::vector<float>& sums) {
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (std::size_t start = 0; start < right.size(); start += sums.size(), ++left)
    for (std::size_t column = 0; column < sums.size(); ++column)
      sums[column] += *left * right[start + column];
}

}  // namespace

ProductPart& ProductQueue::part(const Thread& thread, std::uint64_t number,
                                const ptx::Instruction& instruction) {
  if (products_.size() == number - done_) {  // the first of its threads
    if (used_.empty()) {
      products_.emplace_back();
    } else {
      products_.push_back(std::move(used_.back()));
      used_.pop_back();
    }
    products_.back().issued = 0;
    products_.back().instruction = &instruction;
  }
  Product& product = products_[number - done_];
  if (product.instruction != &instruction && product.instruction->name != instruction.name)
    throw std::runtime_error("threads of a warpgroup issue different products");
  return product.parts[thread.position.thread.x % threads];
}

void ProductQueue::issued(Launch& launch, const Block& block, std::uint64_t number) {
  if (++products_[number - done_].issued < threads) return;
  launch.begin([this, number, &block] {
    for (; done_ <= number; ++done_) {
      if (block.running == 0) throw std::runtime_error("a block ends before a product that goes on");
      compute(products_.front(), block.memory);
      used_.push_back(std::move(products_.front()));
      products_.pop_front();
    }
  });
}

/// "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
void ProductQueue::compute(const Product& product, const std::vector<std::uint8_t>& memory) {
  const ptx::Instruction& i = *product.instruction;
  const std::vector<std::string_view> words = words_of(i.name);
  std::size_t columns = 0, deep = 0;
  std::sscanf(std::string(words[4]).c_str(), "m64n%zuk%zu", &columns, &deep);
  const regard_dtype left_type = type_of(words[6]), right_type = type_of(words[7]);
  const std::uint32_t bytes = static_cast<std::uint32_t>(32 / deep);  // of a number
  const bool in_registers = i.operands[1].kind == ptx::Operand::Kind::vector;
  const bool transposed = bytes == 2 && i.operands.back().number != 0,
             left_transposed = !in_registers && bytes == 2 && i.operands[6].number != 0;
  const ProductPart& first = product.parts[0];

  std::vector<float> left(64 * deep), right(deep * columns);
  std::optional<Tile> left_tile;
  if (!in_registers) left_tile.emplace(first.left, memory);
  const Tile right_tile(first.right, memory);
  for (std::uint32_t row = 0; row < 64; ++row) {
    for (std::uint32_t k = 0; k < deep; ++k) {
      const std::uint32_t byte = k * bytes;
      // Four neighbouring lanes share a row; a register has 4 bytes of it, in one half of k and of the rows.
      const std::uint32_t lane = row % 8 * 4 + byte % 16 / 4, of_register = 2 * (byte / 16) + row % 16 / 8;
      const std::uint32_t bits =
          in_registers
              ? product.parts[row / 16 * 32 + lane].registers[of_register] >> 8 * (byte % 4)
              : number_at(left_transposed ? left_tile->transposed(k, row) : left_tile->at(row, byte), bytes);
      left[row * deep + k] = decoded(left_type, bits & (bytes == 2 ? 0xffff : 0xff));
    }
  }
  for (std::uint32_t column = 0; column < columns; ++column)
    for (std::uint32_t k = 0; k < deep; ++k)
      right[k * columns + column] = decoded(
          right_type,
          number_at(transposed ? right_tile.transposed(k, column) : right_tile.at(column, k * bytes), bytes));
  std::vector<float> sums(columns);
  for (std::size_t row = 0; row < 64; ++row) {
    multiply_row(&left[row * deep], right, sums);
    for (std::size_t column = 0; column < columns; ++column) {
      const ProductPart& part = product.parts[row / 16 * 32 + row % 8 * 4 + column % 8 / 2];
      float& sum = *part.sums[4 * (column / 8) + 2 * (row % 16 / 8) + column % 2];
      sum = (part.adds ? sum : 0.0f) + sums[column];
    }
  }
}

std::span<const Named> matrix_instructions() {
  static constexpr Named table[] = {
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", ldmatrix<false>},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", ldmatrix<true>},
      {"stmatrix.sync.aligned.m8n8.x4.shared.b16", stmatrix<false>, 90},
      {"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", stmatrix<true>, 90},
      {"mma.sync.aligned.m16n8k16.row.col.f32.*", multiply, 80},
      {"mma.sync.aligned.m16n8k8.row.col.f32.*", multiply},
      {"wgmma.mma_async.sync.aligned.m64n*", issue, 90, 90},
      {"wgmma.commit_group.sync.aligned", commit, 90, 90},
      {"wgmma.wait_group.sync.aligned", wait, 90, 90},
  };
  return table;
}

}  // namespace emulator
