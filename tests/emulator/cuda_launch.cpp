#include "emulator/cuda_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <stdexcept>

#include "emulator/instructions.h"

namespace emulator {

CudaLaunch::CudaLaunch(const CudaGrid& grid, std::function<void()> kernel)
    : Launch({grid.blocks, grid.threads, grid.cluster, dynamic_start(largest_alignment) + grid.shared_bytes},
             position, std::move(kernel)),
      shared_bytes_(grid.shared_bytes),
      capability_(grid.capability) {}

void CudaLaunch::execute(Site& site, const Operand* operands, int count) {
  if (site.program == nullptr) {
    std::string text;
    for (const char* c = site.text; *c != 0; ++c) {
      // "%%" is a "%", and "%12" may be text itself.
      if (*c == '%' && c[1] == '%') {
        text += *c++;
        continue;
      }
      char* end = nullptr;
      const long number = *c == '%' && std::isdigit(static_cast<unsigned char>(c[1])) != 0
                              ? std::strtol(c + 1, &end, 10)
                              : -1;
      if (number >= count)
        throw std::runtime_error(fmt::format("'{}' has no operand %{}", site.text, number));
      if (number >= 0 && operands[number].text != nullptr) {
        text += operands[number].text;
        c = end - 1;
      } else {
        text += *c;
      }
    }
    site.program = new ptx::Program(ptx::parse(text, capability_));
  }
  Execution(*this, operands).run(*static_cast<const ptx::Program*>(site.program));
}

std::uint32_t CudaLaunch::together(Collective what, std::uint32_t value, std::uint32_t argument) {
  struct Lane {
    std::uint32_t value, argument, result;
  } mine{value, argument, 0};
  static constexpr char kinds[8] = {};
  with_warp(&kinds[static_cast<int>(what)], &mine, [what](void* const* of_lanes) {
    const auto lane = [of_lanes](std::size_t i) -> Lane& { return *static_cast<Lane*>(of_lanes[i]); };
    std::uint32_t ballot = 0, sum = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      ballot |= std::uint32_t{lane(i).value != 0} << i;
      sum += lane(i).value;
    }
    for (std::size_t i = 0; i < 32; ++i) {
      Lane& l = lane(i);
      switch (what) {
        case Collective::shuffle:
          l.result = lane(l.argument % 32).value;
          break;
        case Collective::shuffle_xor:
          l.result = lane((i ^ l.argument) % 32).value;
          break;
        case Collective::shuffle_up:
          l.result = lane(i < l.argument ? i : i - l.argument).value;
          break;
        case Collective::any:
          l.result = ballot != 0;
          break;
        case Collective::ballot:
          l.result = ballot;
          break;
        case Collective::sum:
          l.result = sum;
          break;
        case Collective::nothing:
          break;
      }
    }
  });
  return mine.result;
}

bool CudaLaunch::sync_block(bool value) {
  return meet_block("__syncthreads", value);
}

void* CudaLaunch::fixed_memory(int number) {
  return thread().block->memory.data() + static_cast<std::size_t>(number) * fixed_memory_bytes;
}
void* CudaLaunch::dynamic_memory(std::uint32_t alignment) {
  const std::uint32_t start = dynamic_start(std::max(alignment, 16u));
  std::vector<std::uint8_t>& memory = thread().block->memory;
  memory.resize(start + shared_bytes_);
  return memory.data() + start;
}
std::uint32_t CudaLaunch::shared_address(const void* pointer) {
  const Block& block = *thread().block;
  const auto at = static_cast<const std::uint8_t*>(pointer) - block.memory.data();
  if (at < 0 || at > std::ssize(block.memory))
    throw std::runtime_error("a pointer is not to the block's shared memory");
  return of_rank(block.rank, static_cast<std::uint32_t>(at));
}

}  // namespace emulator
