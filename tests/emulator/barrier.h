// An mbarrier: a phase ends when all threads have arrived and all bytes have been received.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace emulator {

class Launch;

struct Barrier {
  std::uint16_t arrivals, missing;
  std::int32_t bytes : 31;  ///< still expected
  std::uint32_t phase : 1;

  void init(std::uint32_t count) {
    arrivals = missing = static_cast<std::uint16_t>(count);
    bytes = 0;
    phase = 0;
  }
  void arrive() {
    if (missing == 0) throw std::runtime_error("more arrivals at an mbarrier than it counts");
    --missing;
    end_phase();
  }
  void expect(std::uint32_t more) { bytes += static_cast<std::int32_t>(more); }
  void complete(std::uint32_t come) {
    bytes -= static_cast<std::int32_t>(come);
    end_phase();
  }

 private:
  void end_phase() {
    if (missing > 0 || bytes != 0) return;
    phase ^= 1;
    missing = arrivals;
  }
};
static_assert(sizeof(Barrier) == 8);

/// Throws for an address at which there can be no barrier.
Barrier& barrier_at(Launch&, std::uint32_t address);

}  // namespace emulator
