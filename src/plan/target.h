// A target: what kernels are compiled for. Data, read from targets/<name>.toml.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "problem/problem.h"

namespace regard {

/// What a CPU kernel may test at compile time: `target::<feature>` in its block of constants.
/// "bf16": conversions to it; "bf16_dot": products of bf16 pairs by vectors.
inline constexpr std::array<std::string_view, 8> cpu_features = {"fma",  "f16c",     "avx2", "avx512",
                                                                 "bf16", "bf16_dot", "amx",  "amx_emulated"};

/// What rules and GPU kernels may test. Each kind of target has one closed list.
inline constexpr std::array<std::string_view, 6> cuda_features = {"mma",   "cp_async", "tma",
                                                                  "wgmma", "tcgen05",  "fp8"};
inline constexpr std::array<std::string_view, 8> hip_features = {"cdna2", "cdna3", "cdna4", "rdna3",
                                                                 "rdna4", "mfma",  "wmma",  "trload"};

enum class TargetKind : std::uint8_t { cpu, cuda, hip };
std::string_view word(TargetKind);
std::span<const std::string_view> features_of(TargetKind);

struct Target {
  std::string name;  ///< "cpu-avx512", "sm_90a", "gfx942"
  TargetKind kind = TargetKind::cpu;
  std::string doc;                     ///< one sentence
  std::vector<DType> dtypes;           ///< input types with a kernel path
  std::vector<std::string> features;   ///< "bf16_dot", "f16c", "avx512", "wgmma", "tma", ... tested by rules
  std::vector<std::string> options;    ///< compiler options in canonical order, e.g. "-march=x86-64-v4"
  std::vector<std::string> cpu_flags;  ///< cpu: what the machine must report (cpuid names) to run this
  std::vector<std::string> slow_on;    ///< cpu: makers of chips that run it more slowly than a lesser one
  int preference = 0;                  ///< the highest that the machine can run is the default
  int vector_bytes = 16;               ///< cpu: width of a vector register
  int max_threads_per_block = 0;       ///< gpu
  std::int64_t shared_memory = 0;      ///< gpu: bytes that one block can ask for
  int registers = 0;                   ///< gpu: 32-bit registers per multiprocessor
  int wave = 0;                        ///< gpu: lanes per warp or wavefront
  int units = 0;                       ///< gpu: multiprocessors of the chip that the rates below are of

  /// What the cost model knows. cpu: of one core; gpu: of the chip named in `doc`. 0: not supported.
  std::map<DType, double> gflops;   ///< 1e9 operations per second of a matrix product, by input type
  double gigabytes_per_second = 0;  ///< of memory

  /// gpu: the shape of one matrix instruction, [m, n, k].
  struct Fragment {
    std::vector<DType> dtypes;
    std::int64_t m = 0, n = 0, k = 0;
  };
  std::vector<Fragment> fragments;

  /// An algorithm proposal for a kernel of this target: a row of the file.
  struct Tile {
    std::string kernel;  ///< "sm90_forward", "cpu_decode", ...
    std::vector<DType> dtypes;
    std::int64_t max_d = 0, max_dv = 0;
    std::map<std::string, std::int64_t> values;  ///< "block_q", "block_k", ... (Algorithm fields)
    int line = 0;                                ///< where it stands in the TOML, for messages
  };
  std::vector<Tile> tiles;

  /// A GPU is all that is no CPU; which backend drives it, src/device finds by the word of its kind.
  bool on_cpu() const { return kind == TargetKind::cpu; }
  bool on_gpu() const { return !on_cpu(); }
  bool has(std::string_view feature) const;
};

/// Strict: a schema error names file, line and the nearest right word.
Result<Target> parse_target(std::string_view toml, std::string_view file_name);

/// All targets, in preference order per kind (parsed once from the embedded files).
const Result<std::vector<Target>>& targets();
Result<const Target*> find_target(std::string_view name);

}  // namespace regard
