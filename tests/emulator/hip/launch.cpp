#include "emulator/hip/launch.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "emulator/hip/instructions.h"

namespace emulator::hip {

HipLaunch::HipLaunch(const Chip& chip, const HipGrid& grid, std::function<void()> kernel)
    : Launch({grid.blocks, grid.threads, 1,
              static_cast<std::size_t>(grid.static_variables) * static_bytes + grid.dynamic_bytes, chip.wave},
             position, std::move(kernel)),
      chip_(chip),
      dynamic_start_(static_cast<std::uint32_t>(grid.static_variables) * static_bytes) {
  wave = chip.wave;
  if (grid.dynamic_bytes > chip.lds_bytes)
    throw std::runtime_error(fmt::format("{} bytes of LDS are more than the {} of {}", grid.dynamic_bytes,
                                         chip.lds_bytes, chip.name));
}

void HipLaunch::require(Builtin& builtin) {
  if (builtin.found == nullptr) builtin.found = &find_builtin(builtin.name, chip_);
}

void HipLaunch::together(Builtin& builtin, void* mine) {
  require(builtin);
  const Named& named = *builtin.found;
  // Lanes at different places of the kernel do not meet, even if both are the same instruction.
  with_warp(__builtin_return_address(0), mine,
            [this, &named](void* const* given) { named.perform(named, {*this, chip_, given}); });
}

std::uint8_t* HipLaunch::place(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment) {
  if (address % alignment != 0)
    throw std::runtime_error(
        fmt::format("{} bytes of LDS at {}, no multiple of {}", bytes, address, alignment));
  return shared(address, bytes);
}

void* HipLaunch::lds(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment, bool) {
  return place(address, bytes, alignment);
}
const std::uint8_t* HipLaunch::lds_of_wave(std::uint32_t address, std::uint32_t bytes) {
  return place(address, bytes, bytes);
}

std::uint32_t HipLaunch::lds_address(const void* pointer) {
  const Block& block = *thread().block;
  const auto at = static_cast<const std::uint8_t*>(pointer) - block.memory.data();
  if (at < 0 || at > std::ssize(block.memory))
    throw std::runtime_error("a pointer is not to the block's LDS");
  return static_cast<std::uint32_t>(at);
}

void* HipLaunch::static_memory(int number) {
  return thread().block->memory.data() + static_cast<std::size_t>(number) * static_bytes;
}
void* HipLaunch::dynamic_memory() {
  return thread().block->memory.data() + dynamic_start_;
}

void HipLaunch::copy_to_lds(Builtin& builtin, const void* from, std::uint32_t base, std::uint32_t bytes) {
  require(builtin);
  if (bytes != 4 && !(chip_.family == cdna4 && (bytes == 12 || bytes == 16)))
    throw std::runtime_error(fmt::format("{} has no global_load_lds of {} bytes", chip_.name, bytes));
  std::uint8_t* const to = place(base + static_cast<std::uint32_t>(thread().lane) * bytes, bytes, 4);
  thread().copies.emplace_back([from, to, bytes] { std::memcpy(to, from, bytes); });
}

/// They land in their order, and not before they are waited for.
void HipLaunch::wait_for_copies(unsigned left) {
  std::deque<std::function<void()>>& copies = thread().copies;
  for (; copies.size() > left; copies.pop_front()) copies.front()();
}

/// The number of memory operations that may be left is in bits 0 to 3, 14 and 15 of the immediate (gfx9).
void HipLaunch::wait_count(unsigned immediate) {
  if ((chip_.family & cdna) != 0) wait_for_copies((immediate & 15) | (immediate >> 14 & 3) << 4);
}

void HipLaunch::fence(int, const char* scope) {
  if (std::strcmp(scope, "agent") == 0 || std::strcmp(scope, "") == 0) wait_for_copies(0);
}

void HipLaunch::barrier() {
  meet_block("s_barrier", false);
}

void HipLaunch::ending(Thread& thread) {
  if (!thread.copies.empty()) throw std::runtime_error("the kernel ends before a copy to LDS that it began");
}

}  // namespace emulator::hip
