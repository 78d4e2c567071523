// A search for a kernel through the tiers (engine/tiers.h): what all of them depend on, and what one finds
// out for the next.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/settings.h"
#include "compile/render.h"
#include "compile/toolchain.h"
#include "engine/resolve.h"

namespace regard {

class Search {
 public:
  enum class Goal : bool { code, location };
  Search(const KernelKey&, const Target&, const Settings&, Goal);

  const KernelKey& key;
  const Target& target;
  const Settings& settings;
  const std::string text;  ///< of the key

  /// The input of a compiler. Made for the first tier that needs it.
  Result<const Rendered*> rendered();
  /// The input of a compiler, the compiler, and the result's key in the cache.
  struct Source {
    const Rendered* rendered;
    Cache* cache;
    Result<Toolchain*> toolchain;
    std::optional<Digest> digest;  ///< of the toolchain's result; none without a toolchain
  };
  /// Made for the first tier that needs it.
  Result<const Source*> source();
  /// Whether this machine is allowed and able to compile it; only after source().
  bool compiles() const { return source_->toolchain.has_value() && settings.jit; }

  /// A binary as code; GPUs get it later, each at first use. None where only the tier is requested.
  Result<Code> load(const std::vector<std::byte>& binary, const std::string& symbol) const;
  bool wants_code() const { return goal_ == Goal::code; }

  /// The kernel as a tier gives it.
  std::shared_ptr<const LoadedKernel> found(Tier, Code, std::optional<Resources> = {},
                                            std::string not_kept = {}) const;

  /// Why a tier does not have it: what follows "kernel '...' is", "not in the cache (...)". `scarce`: it may
  /// have it all the same, as memory, files or disk ran out.
  void missed(std::string why, bool scarce = false);
  /// The error of a search that found nothing: what each tier said.
  Error failure() const;

  bool cached_does_not_load = false;  ///< the entry under this search's own digest
  bool declarable = false;            ///< if it is not found, an ahead-of-time build would help

  /// For the log: the time since the previous one was spent on this.
  void spent_on(const char* step);
  const std::string& steps() const { return steps_; }

 private:
  using Clock = std::chrono::steady_clock;

  const Goal goal_;
  const Clock::time_point start_;
  std::optional<Rendered> rendered_;
  std::optional<Source> source_;
  std::vector<std::string> missed_;
  bool scarce_ = false;
  const bool logged_;
  Clock::time_point last_;
  std::string steps_;
};

}  // namespace regard
