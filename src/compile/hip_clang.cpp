#include "compile/hip_clang.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/text.h"
#include "compile/amd_resources.h"
#include "compile/clang_version.h"
#include "compile/compiler_identity.h"
#include "compile/compiler_run.h"
#include "compile/process.h"

namespace regard {
namespace {

constexpr std::string_view words[] = {"clang-22", "clang-21", "clang-20", "clang-19", "clang"};

// Tried first for CDNA: a lane with 256 registers keeps nothing in accumulator registers, which clang 19
// would copy back and forth in loops, and two waves of a SIMD hide each other's waits. A kernel that spills
// then is compiled again with all 512.
constexpr std::string_view two_waves = "-DREGARD_LEAST_WAVES=2";

// Added to every command, so part of the identity: one code object for the GPU, without anything of ROCm. By
// default clang also defines a symbol that it names by a hash of the file's folder.
constexpr std::string_view always[] = {
    "-x",        "hip",       "--offload-device-only", "--no-gpu-bundle-output",
    "-nogpuinc", "-nogpulib", "-fuse-cuid=none"};

class HipClang final : public Toolchain {
 public:
  HipClang(IdentifiedCompiler compiler, double limit_seconds)
      : compiler_(std::move(compiler)),
        identity_(fmt::format("{}; {}; CDNA: {}, unless it spills", compiler_.answer.identity,
                              fmt::join(always, " "), two_waves)),
        limit_seconds_(limit_seconds) {}

  std::string name() const override { return fmt::format("clang for HIP ({})", compiler_.path); }
  std::string identity() const override { return identity_; }

 private:
  Result<Compiled> run(const CompileRequest& request) override {
    if (Status status =
            knows_chip(compiler_.answer.identity, request.options, in_quotes(compiler_.path) + " is");
        !status)
      return tl::unexpected(status.error());
    if (chip_of(request.options).starts_with("gfx9")) {
      Result<Compiled> made = run_with(request, {std::string(two_waves)});
      if (!made || !made->resources->spills()) return made;
    }
    return run_with(request, {});
  }

  Result<Compiled> run_with(const CompileRequest& request, const std::vector<std::string>& more) const {
    CompilerRun run{.source = request.name + ".hip", .output = request.name + ".co"};
    run.command = {compiler_.path};
    run.command.insert(run.command.end(), request.options.begin(), request.options.end());
    run.command.insert(run.command.end(), std::begin(always), std::end(always));
    run.command.insert(run.command.end(), more.begin(), more.end());
    run.command.insert(run.command.end(), {"-o", run.output, run.source});
    run.limit_seconds = limit_seconds_;
    Result<CompilerOutput> made = run_compiler(request, run);
    if (!made) return tl::unexpected(made.error());
    const Result<Resources> resources = amd_resources(made->binary, chip_of(request.options));
    if (!resources)
      return fail(resources.error().kind, fmt::format("{}: {}", name(), resources.error().message));
    return Compiled{.binary = std::move(made->binary), .log = std::move(made->log), .resources = *resources};
  }

  Status as_identified(Look look) const override { return compiler_.unchanged(look == Look::thorough); }

  IdentifiedCompiler compiler_;
  std::string identity_;
  double limit_seconds_;
};

/// What the program prints when it is asked one question.
Result<std::string> answer_to(const std::string& program, const std::string& question) {
  const Result<Finished> finished = run_process({program, question}, "/", {.seconds = 20});
  if (!finished) return tl::unexpected(finished.error());
  if (finished->succeeded) return finished->output;
  return invalid(fmt::format("{} when asked {}", finished->ended(), question));
}

/// What it can do of what kernels need; an error says what is missing.
Result<CompilerAnswer> ask_parts(const std::string& program, const std::string& path) {
  const Result<std::string> backends = answer_to(program, "--print-targets");
  if (!backends) return tl::unexpected(backends.error());
  if (backends->find("amdgcn") == std::string::npos) return invalid("has no backend for AMD GPUs");
  const Result<std::string> linker = answer_to(program, "-print-prog-name=lld");
  if (!linker) return tl::unexpected(linker.error());
  if (find_program(linker->substr(0, linker->find('\n')), path).empty())
    return invalid("has no lld, its linker for AMD GPUs");
  return CompilerAnswer{"amdgcn, lld"};
}

/// The error is the end of a sentence that begins with the program.
Result<IdentifiedCompiler> usable(const std::string& program, const std::string& path,
                                  CompilerMemory* memory) {
  Result<IdentifiedCompiler> compiler = identified(program, memory);
  if (!compiler) return compiler;
  const int version = clang_version(compiler->answer.identity);
  if (version == 0) return invalid("is not clang");
  if (version < oldest_clang) return invalid(fmt::format("is clang {}, which is too old", version));
  const Result<CompilerAnswer> parts =
      recall_or_ask(memory, program, " for HIP", [&] { return ask_parts(program, path); });
  if (!parts) return tl::unexpected(parts.error());
  return compiler;
}

/// Absolute paths of those that exist, in the order in which they are tried.
std::vector<std::string> programs_of(const HipClangPlaces& places) {
  std::vector<std::string> tried;
  if (!places.setting.empty()) {
    tried = {places.setting};
  } else {
    for (const std::string& rocm : {places.rocm_path, places.rocm})
      if (!rocm.empty()) tried.push_back(rocm + "/llvm/bin/clang");
    tried.insert(tried.end(), std::begin(words), std::end(words));
  }
  std::vector<std::string> found;
  for (const std::string& word : tried)
    if (std::string program = find_program(word, places.path); !program.empty())
      found.push_back(std::move(program));
  return found;
}

}  // namespace

Result<std::unique_ptr<Toolchain>> find_hip_clang(const HipClangPlaces& places, double limit_seconds,
                                                  CompilerMemory* memory) {
  std::string unusable;
  for (const std::string& program : programs_of(places)) {
    const Result<IdentifiedCompiler> compiler = usable(program, places.path, memory);
    if (compiler) return std::make_unique<HipClang>(*compiler, limit_seconds);
    if (is_scarce(compiler)) return tl::unexpected(compiler.error());
    unusable += fmt::format("; {} {}", in_quotes(program), compiler.error().message);
  }
  const std::string needed = fmt::format("clang {} or later with AMD's backend and lld", oldest_clang);
  if (!places.setting.empty()) {
    return fail(
        ErrorKind::no_kernel,
        fmt::format("REGARD_HIP_CLANG={} cannot compile for AMD GPUs{}; set it to the path of {}, without "
                    "options, or unset it to search ROCm and PATH",
                    in_quotes(places.setting), unusable.empty() ? "; it is no program" : unusable, needed));
  }
  return fail(
      ErrorKind::no_kernel,
      fmt::format(
          "no clang for AMD GPUs: searched {}{}, and {} on PATH ({}){}; install ROCm, or {} (of Debian, "
          "clang-19 and lld-19), or set REGARD_HIP_CLANG",
          places.rocm_path.empty() ? "" : fmt::format("ROCM_PATH {}, ", in_quotes(places.rocm_path)),
          in_quotes(places.rocm), fmt::join(words, ", "), printable(places.path), unusable, needed));
}

}  // namespace regard
