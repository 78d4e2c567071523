#include "compile/nvrtc.h"

#include <fmt/format.h>

#include <atomic>
#include <span>

#include "base/interruption.h"
#include "base/text.h"
#include "compile/rtc_program.h"
#include "compile/rtc_thread.h"

namespace regard {
namespace {

/// Always added: ptxas reports the resources that the kernel takes (compile/resources.h).
constexpr const char* verbose = "--ptxas-options=--verbose";

class Nvrtc final : public Toolchain {
 public:
  Nvrtc(RtcLibrary library, std::string identity, std::vector<const char*> always)
      : library_(std::move(library)),
        identity_(fmt::format("{}; {}", identity, fmt::join(always, " "))),
        always_(std::move(always)) {}

  std::string name() const override { return fmt::format("NVRTC ({})", library_.path); }
  std::string identity() const override { return identity_; }

 private:
  Result<Compiled> run(const CompileRequest& request) override {
    return in_rtc_thread([&](const std::atomic<bool>& stop) { return run(request, stop); });
  }

  Result<Compiled> run(const CompileRequest& request, const std::atomic<bool>& stop) const {
    Result<RtcCompiled> made = compile_by(nvrtc_make, library_, request, ".cu", always_, stop);
    if (!made) return tl::unexpected(made.error());
    Compiled compiled{.binary = std::move(made->code), .log = std::move(made->log)};
    const Result<Resources> resources = parse_ptxas_log(compiled.log, made->ptx);
    if (!resources) return tl::unexpected(resources.error());
    compiled.resources = *resources;
    return compiled;
  }

  RtcLibrary library_;
  std::string identity_;
  std::vector<const char*> always_;  ///< options
};

}  // namespace

std::string nvrtc_identity(std::string_view ptx) {
  std::string release, build;
  for (const std::string_view line : split(ptx, "\n")) {
    constexpr std::string_view build_words = "Compiler Build ID: ", release_words = "compilation tools, ";
    if (const std::size_t at = line.find(build_words); at != std::string_view::npos) {
      build = line.substr(at + build_words.size());
    } else if (const std::size_t tools = line.find(release_words); tools != std::string_view::npos) {
      release = line.substr(tools + release_words.size());
    }
  }
  return release.empty() || build.empty() ? "" : fmt::format("NVRTC {}; {}", release, build);
}

namespace {

/// What it reports about itself when it compiles an empty kernel.
Result<CompilerAnswer> ask_identity(const RtcLibrary& library, std::span<const char* const> options,
                                    const std::atomic<bool>& stop) {
  RtcProgram empty(library, "extern \"C\" __global__ void empty() {}", "empty.cu", stop);
  if (!empty.compile(options)) {
    if (empty.was_interrupted()) return interruption();
    if (const char* why = empty.refusal()) {
      return fail(ErrorKind::no_kernel, fmt::format("NVRTC cannot say which build it is: {}", why));
    }
    return fail(ErrorKind::no_kernel, fmt::format("NVRTC in {} does not compile an empty kernel ({}): {}",
                                                  in_quotes(library.path), empty.error(), empty.log()));
  }
  const std::string identity = nvrtc_identity(empty.ptx());
  if (!identity.empty()) return CompilerAnswer{identity};
  return fail(ErrorKind::no_kernel,
              fmt::format("NVRTC in {} does not say which build it is", in_quotes(library.path)));
}

}  // namespace

// Compiling an empty kernel takes 0.1 s, much longer than loading a real one from the cache.
Result<std::unique_ptr<Toolchain>> make_nvrtc(const RtcLibrary& library, CompilerMemory* memory) {
  // Where there is a driver, NVRTC caches what it compiled, and then reports no registers or spills. Older
  // versions cache nothing and do not know the option.
  static constexpr const char* options[] = {verbose, "--no-cache"};
  const auto identify = [&](std::span<const char* const> with) {
    return recall_or_ask(
        memory, library.path, with.empty() ? "" : fmt::format(" {}", fmt::join(with, " ")), [&] {
          return in_rtc_thread(
              [&](const std::atomic<bool>& stop) { return ask_identity(library, with, stop); });
        });
  };
  std::span<const char* const> always = options;
  Result<CompilerAnswer> identity = identify(always.last(1));
  if (!identity && !is_scarce(identity)) {
    always = always.first(1);
    identity = identify({});
  }
  if (!identity) return tl::unexpected(identity.error());
  return std::make_unique<Nvrtc>(library, identity->identity,
                                 std::vector<const char*>(always.begin(), always.end()));
}

}  // namespace regard
