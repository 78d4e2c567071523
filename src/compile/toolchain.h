// A toolchain turns a rendered source into a binary: the host C++ compiler makes shared objects for CPU
// targets, NVRTC, or else nvcc, machine code for CUDA targets. HIP takes its place here later.
#pragma once

#include <atomic>
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
  /// Why it is not known whether the compiler of that identity made this; empty when it is.
  std::string doubt = {};
};

/// Of a compiler: the end of a sentence.
inline tl::unexpected<Error> was_replaced() {
  return invalid("was replaced after it was asked what it is");
}

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
  /// Whether identity() still says what it is, as far as its file tells and earlier compiles noticed.
  bool is_current() const { return !replaced_ && as_identified(Look::quick); }

 protected:
  enum class Look { quick, thorough };  ///< at its file; or, where that does not tell it, by asking it again

 private:
  virtual Result<Compiled> run(const CompileRequest&) = 0;
  /// One in this process's memory stays as it is. An error is the end of a sentence, and `no_memory` where it
  /// could not be asked.
  virtual Status as_identified(Look) const { return {}; }

  std::atomic<bool> replaced_{false};
};

class CompilerMemory;

/// The toolchain for a target, found once per process and again when it was replaced; the error says what was
/// searched and what to install.
/// `memory` (may be null) saves the first caller from asking a compiler again what it is.
Result<Toolchain*> toolchain_for(const Target&, CompilerMemory* memory = nullptr);

}  // namespace regard
