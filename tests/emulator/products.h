// Asynchronous matrix products of a warpgroup, in the order that its threads issue them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

namespace emulator {

class Launch;

namespace ptx {
struct Instruction;
}

/// What one thread gives to a product.
struct ProductPart {
  std::vector<float*> sums;
  std::array<std::uint32_t, 4> registers{};
  std::uint64_t left = 0, right = 0;     ///< operands in shared memory
  const std::uint8_t* memory = nullptr;  ///< of the block
  bool adds = true;
};

class ProductQueue {
 public:
  static constexpr int threads = 128;

  /// The `number`-th product of thread `thread`; a complete one may be computed at once.
  void issue(Launch&, int thread, std::uint64_t number, const ptx::Instruction&, ProductPart);
  /// Computes what is complete, as far as the `count`-th; whether all those are done.
  bool finish(std::uint64_t count);

 private:
  struct Product {
    const ptx::Instruction* instruction = nullptr;
    int issued = 0;
    std::vector<ProductPart> parts;
  };
  static void compute(const Product&);

  std::deque<Product> products_;
  std::uint64_t done_ = 0;
};

}  // namespace emulator
