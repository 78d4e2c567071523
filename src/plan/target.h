// A target: what kernels are compiled for. Data, read from targets/<name>.toml.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plan/feature.h"
#include "plan/kernel_key.h"
#include "problem/problem.h"

namespace regard {

std::string_view word(TargetKind);

struct Target {
  std::string name;  ///< "cpu-avx512", "sm_90a", "gfx942"
  TargetKind kind = TargetKind::cpu;
  std::string doc;                     ///< one sentence
  std::vector<DType> dtypes;           ///< input types with a kernel path
  std::vector<Feature> features;       ///< what rules and kernels ask for
  std::vector<std::string> options;    ///< compiler options in canonical order, e.g. "-march=x86-64-v4"
  std::vector<std::string> cpu_flags;  ///< cpu: what the machine must report (cpuid names) to run this
  std::vector<std::string> slow_on;    ///< cpu: vendors of chips that run it more slowly than a lower target
  int preference = 0;                  ///< the highest one that the machine can run is the default
  int vector_bytes = 16;               ///< cpu: width of a vector register
  int vector_registers = 16;           ///< cpu: number of vector registers
  int max_threads_per_block = 0;       ///< gpu
  std::int64_t shared_memory = 0;      ///< gpu: bytes that one block can request
  int registers = 0;                   ///< gpu: 32-bit registers per multiprocessor
  int wave = 0;                        ///< gpu: lanes per warp or wavefront
  int dies = 1;                        ///< gpu: parts of the chip with an L2 cache each
  int units = 0;                       ///< gpu: multiprocessors of the chip to which the rates below apply

  /// Data for the cost model. cpu: for one core; gpu: for the chip named in `doc`. 0: not supported.
  std::map<DType, double> gflops;   ///< 1e9 operations per second of a matrix product, by input type
  double gigabytes_per_second = 0;  ///< of memory
  /// gpu: the share of `gflops` that portable kernels reach, where those rates are for other kernels'
  /// instructions.
  std::map<Pass, double> portable_share;

  /// gpu: the shape of one matrix instruction, [m, n, k].
  struct Fragment {
    std::vector<DType> dtypes;
    std::int64_t m = 0, n = 0, k = 0;
  };
  std::vector<Fragment> fragments;

  /// An algorithm for a kernel of this target, and the problems that it is for: a row of the file.
  struct Tile {
    Algorithm algorithm;
    std::vector<DType> dtypes;
    std::int64_t max_d = 0, max_dv = 0;
    int line = 0;  ///< its line in the TOML, for messages
  };
  std::vector<Tile> tiles;

  /// Everything that is not a CPU is a GPU; src/device finds the backend that drives it by the word of its
  /// kind.
  bool on_cpu() const { return kind == TargetKind::cpu; }
  bool on_gpu() const { return !on_cpu(); }
  bool has(Feature feature) const;
};

/// Strict: a schema error names file, line and the nearest valid word.
Result<Target> parse_target(std::string_view toml, std::string_view file_name);

/// All targets, in preference order per kind (parsed once from the embedded files).
const Result<std::vector<Target>>& targets();
Result<const Target*> find_target(std::string_view name);

}  // namespace regard
