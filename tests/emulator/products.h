// Asynchronous matrix products of a warpgroup, in the order in which its threads issue them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

namespace emulator {

class Launch;
struct Block;
struct Thread;

namespace ptx {
struct Instruction;
}

/// What one thread contributes to a product.
struct ProductPart {
  std::vector<float*> sums;
  std::array<std::uint32_t, 4> registers{};  ///< of the left operand, as they were when issued
  std::uint64_t left = 0, right = 0;         ///< operands in shared memory
  bool adds = true;
};

class ProductQueue {
 public:
  static constexpr int threads = 128;

  /// What a thread contributes to its `number`-th product; to be filled, and then issued.
  ProductPart& part(const Thread&, std::uint64_t number, const ptx::Instruction&);
  /// Issued by one more thread of the block; the last one starts it.
  void issued(Launch&, const Block&, std::uint64_t number);
  /// How many are done; they finish in order.
  std::uint64_t done() const { return done_; }

 private:
  struct Product {
    const ptx::Instruction* instruction = nullptr;
    int issued = 0;
    std::array<ProductPart, threads> parts;
  };
  static void compute(const Product&, const std::vector<std::uint8_t>& memory);

  std::deque<Product> products_;
  std::vector<Product> used_;  ///< done; kept so that their memory can be reused
  std::uint64_t done_ = 0;
};

}  // namespace emulator
