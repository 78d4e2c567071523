#include "compile/nvcc.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>
#include <vector>

#include "base/text.h"
#include "compile/compiler_run.h"
#include "compile/process.h"

namespace regard {
namespace {

// Added to every command: machine code, ptxas's report, and the PTX kept next to it.
constexpr std::string_view always[] = {"-cubin", "--ptxas-options=--verbose", "--keep"};

class Nvcc final : public Toolchain {
 public:
  /// `state` is that of its file before it was asked for its identity.
  Nvcc(std::string path, std::string state, const std::string& version)
      : path_(std::move(path)),
        state_(std::move(state)),
        identity_(fmt::format("{}; {}", version, fmt::join(always, " "))) {}

  std::string name() const override { return fmt::format("nvcc ({})", path_); }
  std::string identity() const override { return identity_; }

 private:
  Result<Compiled> run(const CompileRequest& request) override {
    CompilerRun run{
        .source = request.name + ".cu", .output = request.name + ".cubin", .beside = request.name + ".ptx"};
    run.command = {path_};
    run.command.insert(run.command.end(), request.options.begin(), request.options.end());
    run.command.insert(run.command.end(), std::begin(always), std::end(always));
    run.command.insert(run.command.end(), {"-o", run.output, run.source});
    Result<CompilerOutput> made = run_compiler(request, run);
    if (!made) return tl::unexpected(made.error());
    const Result<Resources> resources = parse_ptxas_log(made->log, made->beside);
    if (!resources) return tl::unexpected(resources.error());
    return Compiled{.binary = std::move(made->binary), .log = std::move(made->log), .resources = *resources};
  }

  Status as_identified(Look) const override {
    return state_of_program(path_) == state_ ? Status() : was_replaced();
  }

  std::string path_, state_, identity_;
};

Result<CompilerAnswer> ask_version(const std::string& program) {
  const Result<Finished> finished = run_process({program, "--version"}, "/", {.seconds = 10});
  if (!finished) return tl::unexpected(finished.error());
  std::string identity = finished->succeeded ? nvcc_identity(finished->output) : "";
  if (!identity.empty()) return CompilerAnswer{std::move(identity)};
  return fail(ErrorKind::no_kernel,
              fmt::format("'{} --version' does not say which build it is ({})", program, finished->how));
}

}  // namespace

std::string nvcc_identity(std::string_view version) {
  std::string release, build;
  for (const std::string_view line : split(version, "\n")) {
    constexpr std::string_view release_words = "compilation tools, ";
    if (const std::size_t at = line.find(release_words); at != std::string_view::npos)
      release = line.substr(at + release_words.size());
    else if (line.starts_with("Build "))
      build = line;
  }
  return release.empty() || build.empty() ? "" : fmt::format("nvcc {}; {}", release, build);
}

Result<std::unique_ptr<Toolchain>> find_nvcc(const std::string& cuda_home, const std::string& path,
                                             CompilerMemory* memory) {
  std::string unusable;
  for (const std::string& program :
       {cuda_home.empty() ? "" : find_program(cuda_home + "/bin/nvcc", ""), find_program("nvcc", path)}) {
    if (program.empty()) continue;
    const std::string state = state_of_program(program);
    const Result<CompilerAnswer> version =
        recall_or_ask(memory, program, " --version", [&] { return ask_version(program); });
    if (version) return std::make_unique<Nvcc>(program, state, version->identity);
    if (is_scarce(version)) return tl::unexpected(version.error());
    unusable += "; " + version.error().message;
  }
  return fail(
      ErrorKind::no_kernel,
      fmt::format("no nvcc either: searched {}PATH ({}){}",
                  cuda_home.empty() ? "" : fmt::format("CUDA_HOME {}, ", in_quotes(cuda_home + "/bin")),
                  printable(path), unusable));
}

}  // namespace regard
