#include "engine/search.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "engine/compilers_in_cache.h"
#include "engine/machine.h"

namespace regard {
namespace {

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// Changes whenever the meaning of a cache entry does.
constexpr int entry_schema = 1;

}  // namespace

Search::Search(const KernelKey& key, const Target& target, const Settings& settings)
    : key(key),
      target(target),
      settings(settings),
      text(print(key)),
      start_(Clock::now()),
      logged_(log_enabled("cache")),
      last_(start_) {}

Result<const Search::Source*> Search::source() {
  if (source_) return &*source_;
  Result<Rendered> rendered = render(key);
  if (!rendered) return tl::unexpected(rendered.error());
  spent_on("source");
  const Result<Cache*> cache = process_cache();
  if (!cache) return tl::unexpected(cache.error());
  CompilersInCache memory(**cache);
  const Result<Toolchain*> toolchain = toolchain_for(target, settings.cache ? &memory : nullptr);
  spent_on("compiler");
  source_ = Source{std::move(*rendered), *cache, toolchain, {}};
  if (toolchain) {
    source_->digest = identity_of(key, source_->rendered, (*toolchain)->identity());
    spent_on("key");
  }
  return &*source_;
}

std::shared_ptr<const LoadedKernel> Search::found(Tier tier, Code code, std::optional<Resources> resources,
                                                  std::string not_kept) const {
  return std::make_shared<const LoadedKernel>(LoadedKernel{text, std::move(code), tier,
                                                           seconds(Clock::now() - start_),
                                                           std::move(resources), std::move(not_kept)});
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

Digest identity_of(const KernelKey& key, const Rendered& rendered, std::string_view compiler) {
  return sha256(fmt::format("{}\n{}\n{}\n{}\n{}", entry_schema, key.target, compiler,
                            fmt::join(rendered.options, " "), rendered.source));
}

Result<Code> load(const Target& target, const std::vector<std::byte>& binary, const std::string& symbol) {
  if (target.on_gpu()) {
    const Result<const gpu::Backend*> backend = backend_of(target);
    if (!backend) return tl::unexpected(backend.error());
    if (Status status = gpu::check_binary(**backend, binary, symbol); !status)
      return tl::unexpected(status.error());
    return Code{nullptr, nullptr, std::make_shared<const gpu::Kernel>(**backend, binary, symbol)};
  }
  const Result<std::shared_ptr<cpu::Module>> module = cpu::load(binary, symbol);
  if (!module) return tl::unexpected(module.error());
  return Code{(*module)->function(), *module, nullptr};
}

}  // namespace regard
