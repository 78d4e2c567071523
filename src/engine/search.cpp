#include "engine/search.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "compile/kernel_entry.h"
#include "engine/compilers_in_cache.h"
#include "engine/machine.h"

namespace regard {
namespace {

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Search::Search(const KernelKey& key, const Target& target, const Settings& settings, Goal goal)
    : key(key),
      target(target),
      settings(settings),
      text(print(key)),
      goal_(goal),
      start_(Clock::now()),
      logged_(log_enabled("cache")),
      last_(start_) {}

Result<const Rendered*> Search::rendered() {
  if (rendered_) return &*rendered_;
  Result<Rendered> made = render(key);
  if (!made) return tl::unexpected(made.error());
  spent_on("source");
  rendered_ = std::move(*made);
  return &*rendered_;
}

Result<const Search::Source*> Search::source() {
  if (source_) return &*source_;
  const Result<const Rendered*> text = rendered();
  if (!text) return tl::unexpected(text.error());
  const Result<Cache*> cache = process_cache();
  if (!cache) return tl::unexpected(cache.error());
  CompilersInCache memory(**cache);
  const Result<Toolchain*> toolchain = toolchain_for(target, settings.cache ? &memory : nullptr);
  spent_on("compiler");
  source_ = Source{*text, *cache, toolchain, {}};
  if (toolchain) {
    source_->digest = identity_of(key, **text, (*toolchain)->identity());
    spent_on("key");
  }
  return &*source_;
}

std::shared_ptr<const LoadedKernel> Search::found(Tier tier, Code code, std::optional<Resources> resources,
                                                  std::string not_kept) const {
  return std::make_shared<const LoadedKernel>(
      LoadedKernel{text, std::move(code), tier, seconds(Clock::now() - start_), std::move(resources),
                   std::move(not_kept), missed_});
}

void Search::missed(std::string why, bool scarce) {
  missed_.push_back(std::move(why));
  scarce_ = scarce_ || scarce;
}

Error Search::failure() const {
  std::string all = fmt::format("kernel '{}' is ", text);
  for (std::size_t i = 0; i < missed_.size(); ++i) {
    if (i > 0) all += i + 1 == missed_.size() ? ", and " : ", ";
    all += missed_[i];
  }
  return {scarce_ ? ErrorKind::no_memory : ErrorKind::no_kernel, std::move(all)};
}

void Search::spent_on(const char* step) {
  if (!logged_) return;
  const Clock::time_point now = Clock::now();
  steps_ += fmt::format(" {} {:.3f}", step, 1000 * seconds(now - last_));
  last_ = now;
}

Result<Code> Search::load(const std::vector<std::byte>& binary, const std::string& symbol) const {
  if (!wants_code()) return Code{};
  if (target.on_gpu()) {
    const gpu::Backend& backend = backend_of(target);
    if (Status status = gpu::check_binary(backend, binary, symbol); !status)
      return tl::unexpected(status.error());
    return Code{nullptr, nullptr, std::make_shared<const gpu::Kernel>(backend, binary, symbol)};
  }
  const Result<std::shared_ptr<cpu::Module>> module = cpu::load(binary, symbol);
  if (!module) return tl::unexpected(module.error());
  return Code{(*module)->function(), *module, nullptr};
}

}  // namespace regard
