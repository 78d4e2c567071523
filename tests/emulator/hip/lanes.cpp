// Instructions that move words between the lanes of a wave.
#include <array>
#include <utility>

#include "emulator/hip/instructions.h"
#include "emulator/hip/launch.h"
#include "emulator/hip/layouts.h"

namespace emulator::hip {
namespace {

/// Each lane gets the word of the lane that its address, four times a lane's number, names.
void bpermute(const Named&, const Lanes& lanes) {
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane) {
    auto& mine = lanes.of<Exchange>(lane);
    mine.result[0] = lanes.of<Exchange>(mine.other / 4 % lanes.chip.wave).value;
  }
}

/// The first word's odd rows and the second's even rows change places; a row has `size` lanes.
template <unsigned size>
void swap_rows(const Named&, const Lanes& lanes) {
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane) {
    auto& mine = lanes.of<Exchange>(lane);
    mine.result[0] = mine.value;
    mine.result[1] = mine.other;
  }
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane)
    if (lane / size % 2 == 0)
      std::swap(lanes.of<Exchange>(lane + size).result[0], lanes.of<Exchange>(lane).result[1]);
}

/// Each lane gets a word of its own row of 16 lanes, or of the row beside it: from the lane that a digit of
/// two words selects. Those two are the same for all lanes, as they are in scalar registers.
void permute_row(const Lanes& lanes, unsigned other_row) {
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane) {
    auto& mine = lanes.of<Exchange>(lane);
    const unsigned of_row = lane % 16, digits = of_row < 8 ? mine.low : mine.high;
    mine.result[0] =
        lanes.of<Exchange>((lane - of_row + (digits >> 4 * (of_row % 8) & 15)) ^ other_row).value;
  }
}
void permute_own_row(const Named&, const Lanes& lanes) {
  permute_row(lanes, 0);
}
void permute_other_row(const Named&, const Lanes& lanes) {
  permute_row(lanes, 16);
}

void read_lane(const Named&, const Lanes& lanes) {
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane) {
    auto& mine = lanes.of<Exchange>(lane);
    mine.result[0] = lanes.of<Exchange>(mine.other % lanes.chip.wave).value;
  }
}

void ballot(const Named&, const Lanes& lanes) {
  std::uint32_t halves[2] = {};
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane)
    halves[lane / 32] |= std::uint32_t{lanes.of<Exchange>(lane).value != 0} << lane % 32;
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane)
    for (unsigned half : {0u, 1u}) lanes.of<Exchange>(lane).result[half] = halves[half];
}

void read_transposed(const Named&, const Lanes& lanes) {
  for (unsigned first = 0; first < lanes.chip.wave; first += 16) {
    std::array<const std::uint16_t*, 16> from{};
    for (unsigned s = 0; s < 16; ++s)
      from[s] = reinterpret_cast<const std::uint16_t*>(
          lanes.launch.read_for_lane(lanes.place, first + s, lanes.of<TransposedRead>(first + s).address, 8));
    for (unsigned l = 0; l < 16; ++l)
      for (unsigned row = 0; row < 4; ++row)
        lanes.of<TransposedRead>(first + l).result[row] =
            from[transposed_read.lane_of[l][row]][transposed_read.number_of[l][row]];
  }
}

void meet(const Named&, const Lanes&) {}

}  // namespace

std::span<const Named> lane_builtins() {
  static constexpr Named table[] = {
      {"ds_bpermute", every_chip, bpermute},
      {"permlane32_swap", cdna4, swap_rows<32>},
      {"permlane16_swap", cdna4, swap_rows<16>},
      {"permlane16", rdna, permute_own_row},
      {"permlanex16", rdna, permute_other_row},
      {"readfirstlane", every_chip, read_lane},
      {"readlane", every_chip, read_lane},
      {"ballot_w64", cdna, ballot},
      {"ballot_w32", rdna, ballot},
      {"ds_read_tr16_b64_v4i16", cdna4, read_transposed},
      {"ds_read_tr16_b64_v4f16", cdna4, read_transposed},
      {"ds_read_tr16_b64_v4bf16", cdna4, read_transposed},
      {"wave_barrier", every_chip, meet},
      {"global_load_lds", cdna, nullptr},
  };
  return table;
}

}  // namespace emulator::hip
