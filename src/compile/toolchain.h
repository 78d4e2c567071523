// A toolchain turns a rendered source into a binary: the host C++ compiler makes shared objects for CPU
// targets, NVRTC, or else nvcc, machine code for CUDA targets. HIP takes its place here later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/cache.h"
#include "compile/resources.h"
#include "plan/target.h"

namespace regard {

/// A compile that takes longer is killed where it can be.
inline constexpr double compile_limit_seconds = 300;

/// What a compiler may make at most: what the cache can keep.
inline constexpr std::uint64_t largest_binary_bytes = largest_payload_bytes;

struct CompileRequest {
  std::string name;  ///< file stem of the kept source and of messages: letters, digits, _ and -
  std::string source;
  std::vector<std::string> options;  ///< all of Rendered::options
};

struct Compiled {
  std::vector<std::byte> binary;
  std::string log;  ///< the compiler's whole output, warnings included
  double seconds = 0;
  std::optional<Resources> resources;  ///< of a GPU kernel
};

class Toolchain {
 public:
  virtual ~Toolchain() = default;
  /// For people: "c++ (/usr/bin/c++)".
  virtual std::string name() const = 0;
  /// Path-free, for cache keys: vendor, version, build string, machine, and the options it always adds.
  virtual std::string identity() const = 0;
  /// Waits until one of the few compiles at a time is free, and tells a person who waits long. On failure the
  /// message holds the command, the exit code, the compiler's log and where the source was kept.
  Result<Compiled> compile(const CompileRequest&);

 private:
  virtual Result<Compiled> run(const CompileRequest&) = 0;
};

class CompilerMemory;

/// The toolchain for a target, found once per process; the error says what was searched and what to install.
/// `memory` (may be null) saves the first caller from asking a compiler again what it is.
Result<Toolchain*> toolchain_for(const Target&, CompilerMemory* memory = nullptr);

}  // namespace regard
