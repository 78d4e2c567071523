#include "emulator/hip/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "emulator/hip/instructions.h"

namespace emulator::hip {

HipLaunch::HipLaunch(const Chip& chip, const HipGrid& grid, std::function<void()> kernel)
    : Launch(
          {grid.blocks, grid.threads, 1, std::size_t{grid.dynamic_start()} + grid.dynamic_bytes, chip.wave},
          position, std::move(kernel)),
      chip_(chip),
      dynamic_start_(grid.dynamic_start()),
      counts_lds_(grid.counts_lds) {
  wave = chip.wave;
  if (grid.dynamic_bytes > chip.lds_bytes)
    throw std::runtime_error(fmt::format("{} bytes of LDS are more than the {} of {}", grid.dynamic_bytes,
                                         chip.lds_bytes, chip.name));
}

void HipLaunch::require(Builtin& builtin) {
  if (builtin.found == nullptr) builtin.found = &find_builtin(builtin.name, chip_);
}

void HipLaunch::starting(unsigned blocks) {
  waves_.assign(std::size_t{blocks} * (grid().threads / wave), {});
}
WaveState& HipLaunch::wave_state() {
  const Thread& running = thread();
  return waves_[running.block->number * (grid().threads / wave) + running.position.thread.x / wave];
}

void HipLaunch::note(const void* place, LdsUse use, std::uint32_t address, std::uint32_t bytes) {
  LaneState& lane = lane_state();
  if (lane.unacquired)
    throw std::runtime_error("LDS is accessed after a barrier without a fence that acquires between them");
  lane.unreleased = true;
  if (!counts_lds_ && use != LdsUse::copy) return;
  PlaceAccesses& accesses = wave_state().accesses[place];
  accesses.use = use;
  accesses.bytes = bytes;
  accesses.add(static_cast<unsigned>(thread().lane), address);
}

/// Counts what the lanes of a wave have accessed.
void HipLaunch::end_accesses(WaveState& state) {
  for (const auto& [place, accesses] : state.accesses) {
    for (const std::vector<LaneAddress>& lanes : accesses.instructions) {
      if (accesses.use == LdsUse::copy) {
        for (const LaneAddress& lane : lanes)
          if (lane.address != lanes[0].address)
            throw std::runtime_error("the lanes of a wave copy to LDS from different addresses on");
        continue;
      }
      LdsCount& count = counts_[place];
      count.use = accesses.use;
      count.bytes = accesses.bytes;
      const Clocks clocks = clocks_of(chip_, accesses.bytes, accesses.use == LdsUse::write, lanes);
      ++count.instructions;
      count.clocks += clocks.taken;
      count.least += clocks.least;
      count.worst = std::max(count.worst, clocks.worst);
    }
  }
  state.accesses.clear();
}

void HipLaunch::together(Builtin& builtin, void* mine) {
  require(builtin);
  const Named& named = *builtin.found;
  // Lanes at different places of the kernel do not meet, even if both are the same instruction.
  const void* const place = __builtin_return_address(0);
  const auto perform = [this, &named, place](void* const* given) {
    end_accesses(wave_state());
    named.perform(named, {*this, chip_, given, place});
  };
  with_warp(place, mine, [&perform](void* const* given) { perform(given); });
}

std::uint8_t* HipLaunch::place(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment) {
  if (address % alignment != 0)
    throw std::runtime_error(
        fmt::format("{} bytes of LDS at {}, no multiple of {}", bytes, address, alignment));
  return shared(address, bytes);
}

void* HipLaunch::lds(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment, bool write) {
  const LdsUse use = write ? LdsUse::write : LdsUse::read;
  // What is larger than 16 bytes is several instructions.
  for (std::uint32_t done = 0; done < bytes; done += 16)
    note(__builtin_return_address(0), use, address + done, std::min(bytes - done, 16u));
  return place(address, bytes, alignment);
}

const std::uint8_t* HipLaunch::read_for_lane(const void* at, unsigned lane, std::uint32_t address,
                                             std::uint32_t bytes) {
  WaveState& state = wave_state();
  if (state.lanes[lane].unacquired)
    throw std::runtime_error("LDS is accessed after a barrier without a fence that acquires between them");
  state.lanes[lane].unreleased = true;
  if (counts_lds_) {
    PlaceAccesses& accesses = state.accesses[at];
    accesses.bytes = bytes;
    accesses.add(lane, address);
  }
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
  note(__builtin_return_address(0), LdsUse::copy, base, bytes);
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

/// Fences of a block's scope and wider ones. A release is where clang waits for a lane's copies to LDS:
/// without one it does not, not even before it reads what they bring.
void HipLaunch::fence(int order, std::string_view scope, std::string_view memory) {
  if (scope.starts_with("wavefront") || scope.starts_with("singlethread")) return;
  LaneState& lane = lane_state();
  if (order != __ATOMIC_ACQUIRE && order != __ATOMIC_RELAXED) {
    wait_for_copies(0);
    lane.unreleased = false;
    lane.released_global = memory != "local";
  }
  if (order != __ATOMIC_RELEASE && order != __ATOMIC_RELAXED) lane.unacquired = false;
}

void HipLaunch::barrier() {
  LaneState& lane = lane_state();
  if (lane.unreleased)
    throw std::runtime_error("a barrier after accesses of LDS without a fence that releases between them");
  lane.unacquired = true;
  meet_block("s_barrier", false);
}

/// A lane that releases to other blocks does so for all lanes of its own: the barrier before has to order
/// what they wrote to global memory.
void HipLaunch::atomic(int order, int scope) {
  constexpr int agent = 4;
  if (order == __ATOMIC_RELEASE && scope >= agent && !lane_state().released_global)
    throw std::runtime_error("a lane releases to other blocks after a barrier that orders LDS alone");
}

void HipLaunch::ending(Thread& thread) {
  if (!thread.copies.empty()) throw std::runtime_error("the kernel ends before a copy to LDS that it began");
  if (thread.warp->ended + 1 == static_cast<int>(wave)) end_accesses(wave_state());
}

}  // namespace emulator::hip
