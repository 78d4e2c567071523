// A toolchain turns a rendered source into a binary: the host C++ compiler makes shared objects for CPU
// targets, NVRTC, or else nvcc, machine code for CUDA targets, and clang, or else hiprtc, code objects for
// HIP targets.
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

/// A compile that takes longer is killed if possible.
inline constexpr double compile_limit_seconds = 300;

/// The most that a compiler can produce: what the cache can store.
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
  /// Why it is not known whether the compiler of that identity made this; empty when it is known.
  std::string doubt = {};
};

/// About a compiler: the end of a sentence.
inline tl::unexpected<Error> was_replaced() {
  return invalid("was replaced after it was asked what it is");
}

class Toolchain {
 public:
  virtual ~Toolchain() = default;
  /// For people: "c++ (/usr/bin/c++)".
  virtual std::string name() const = 0;
  /// Path-free, for cache keys: vendor, version, build string, machine, and the options that it always adds.
  virtual std::string identity() const = 0;
  /// Waits until one of the few compile slots is free, and notifies a user who waits long. On failure the
  /// message contains the command, the exit code, the compiler's log and where the source was kept.
  Result<Compiled> compile(const CompileRequest&);
  /// Whether identity() is still right, as far as its file shows and earlier compiles noticed.
  bool is_current() const { return !replaced_ && as_identified(Look::quick); }

 protected:
  enum class Look { quick, thorough };  ///< at its file; or, where that is not conclusive, by asking it again

 private:
  virtual Result<Compiled> run(const CompileRequest&) = 0;
  /// A compiler in this process's memory does not change. An error is the end of a sentence, and `no_memory`
  /// where it could not be asked.
  virtual Status as_identified(Look) const { return {}; }

  std::atomic<bool> replaced_{false};
};

class CompilerMemory;

/// The toolchain for a target, found once per process and again after it was replaced; the error says what
/// was searched and what to install. `memory` (can be null) saves the first caller from asking a compiler
/// again for its identity.
Result<Toolchain*> toolchain_for(const Target&, CompilerMemory* memory = nullptr);

}  // namespace regard
