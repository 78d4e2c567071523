// The peak rate of the cores: multiply-adds on registers alone, on one core or on many at the same time. The
// threads share nothing here, so if each is slower among many than alone, the machine is the cause (its
// clock, units that two cores share, other guests). bench/cpu/scaling.py compiles this for the machine and
// runs it.
//
//   arithmetic vectors|pairs|tiles CORES     total GFLOP/s, the median of a few short rounds
//
// vectors: fp32 vectors; pairs: vectors of bf16 pairs; tiles: bf16 on the tile unit of AMX.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
typedef float Vector __attribute__((vector_size(64)));
#else
typedef float Vector __attribute__((vector_size(32)));
#endif
constexpr int lanes = sizeof(Vector) / 4;
constexpr int sums = 12;  // enough to hide the latency of one instruction

/// FLOPs of one call. Twelve sums by the same instruction, which the compiler cannot merge or drop.
#define STEP(instruction, n) asm volatile(instruction " %2, %1, %0" : "+v"(sum[n]) : "v"(a), "v"(b));
#define MULTIPLY(name, instruction, flops_of_lane)                               \
  double name() {                                                                \
    Vector sum[sums] = {}, a = Vector{} + 0.5f, b = Vector{} + 0.25f;            \
    constexpr int repeats = 2000;                                                \
    for (int i = 0; i < repeats; ++i) {                                          \
      STEP(instruction, 0) STEP(instruction, 1) STEP(instruction, 2)             \
      STEP(instruction, 3) STEP(instruction, 4) STEP(instruction, 5)             \
      STEP(instruction, 6) STEP(instruction, 7) STEP(instruction, 8)             \
      STEP(instruction, 9) STEP(instruction, 10) STEP(instruction, 11)           \
    }                                                                            \
    return double{flops_of_lane} * lanes * sums * repeats;                       \
  }
MULTIPLY(multiply_vectors, "vfmadd231ps", 2)
#if defined(__AVX512BF16__)
MULTIPLY(multiply_pairs, "vdpbf16ps", 4)
#endif

#if defined(__AMX_BF16__)
double multiply_tiles() {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shapes;
  asm volatile("ldtilecfg %0" : : "m"(shapes));
  float numbers[256];
  std::fill(std::begin(numbers), std::end(numbers), 0.25f);
  const auto load = [&]<int t>() {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(numbers), "r"(std::ptrdiff_t{64}), "i"(t) : "memory");
  };
  load.template operator()<4>();
  load.template operator()<5>();
  load.template operator()<6>();
  load.template operator()<7>();
  constexpr int repeats = 1000;
  for (int i = 0; i < repeats; ++i)
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  asm volatile("tilerelease");
  return 4.0 * 16 * 16 * 32 * 2 * repeats;
}
#endif

using Multiply = double (*)();

Multiply find(std::string_view kind) {
  if (kind == "vectors") return multiply_vectors;
#if defined(__AVX512BF16__)
  if (kind == "pairs") return multiply_pairs;
#endif
#if defined(__AMX_BF16__)
  constexpr long ask_for_state = 0x1023, tile_data = 18;  // arch_prctl: ARCH_REQ_XCOMP_PERM
  if (kind == "tiles" && syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0) return multiply_tiles;
#endif
  return nullptr;
}

std::vector<int> cores_of_process() {
  cpu_set_t set;
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) found.push_back(core);
  return found;
}

double flops_per_second(Multiply multiply) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::duration<double> round(0.1);
  const auto start = Clock::now();
  double flops = 0;
  std::chrono::duration<double> taken{};
  while (taken < round) {
    flops += multiply();
    taken = Clock::now() - start;
  }
  return flops / taken.count();
}

double median_rate(Multiply multiply, const std::vector<int>& cores) {
  constexpr int rounds = 9;
  std::vector<std::vector<double>> rates(cores.size(), std::vector<double>(rounds));
  std::barrier together(static_cast<std::ptrdiff_t>(cores.size()));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cores.size(); ++i)
    threads.emplace_back([&, i] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cores[i], &one);
      sched_setaffinity(0, sizeof one, &one);
      for (double& rate : rates[i]) {
        together.arrive_and_wait();
        rate = flops_per_second(multiply);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<double> totals(rounds);
  for (const auto& of_core : rates)
    for (int i = 0; i < rounds; ++i) totals[i] += of_core[i];
  std::nth_element(totals.begin(), totals.begin() + rounds / 2, totals.end());
  return totals[rounds / 2];
}

}  // namespace

int main(int count, char** arguments) {
  const Multiply multiply = count == 3 ? find(arguments[1]) : nullptr;
  std::vector<int> cores = cores_of_process();
  const int asked = count == 3 ? std::atoi(arguments[2]) : 0;
  if (multiply == nullptr || asked < 1 || asked > static_cast<int>(cores.size())) {
    std::fprintf(stderr, "usage: arithmetic vectors|pairs|tiles CORES, of those that this machine has\n");
    return 2;
  }
  cores.resize(asked);
  std::printf("%.1f\n", median_rate(multiply, cores) / 1e9);
}
