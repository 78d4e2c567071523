#include "compile/host_compiler.h"

#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "compile/compiler_run.h"
#include "compile/machine_options.h"
#include "compile/quick_options.h"

namespace regard {
namespace {

// Added to every command, so part of the identity. Kernels call only memory functions of the C library; the
// other libraries and start files of a default link would take the linker longer than a kernel does.
constexpr std::string_view shared_object[] = {"-shared", "-nostdlib", "-lc", "-x", "c++"};

/// Those that depend on the compiler.
std::vector<std::string_view> options_of(std::string_view compiler_identity) {
  std::vector<std::string_view> options;
  for (const auto& more : {quick_options(compiler_identity), machine_options(compiler_identity)})
    options.insert(options.end(), more.begin(), more.end());
  return options;
}

/// Everything that is added to a kernel's options.
std::vector<std::string> added(std::span<const std::string_view> of_compiler) {
  std::vector<std::string> options(of_compiler.begin(), of_compiler.end());
  options.insert(options.end(), std::begin(shared_object), std::end(shared_object));
  return options;
}

class HostCompiler final : public Toolchain {
 public:
  HostCompiler(std::string word, IdentifiedCompiler compiler, double limit_seconds)
      : word_(std::move(word)),
        compiler_(std::move(compiler)),
        options_(options_of(compiler_.answer.identity)),
        identity_(fmt::format("{}; {}", compiler_.answer.identity, fmt::join(added(options_), " "))),
        limit_seconds_(limit_seconds) {}

  std::string name() const override {
    return word_ == compiler_.path ? word_ : fmt::format("{} ({})", word_, compiler_.path);
  }
  std::string identity() const override { return identity_; }

 private:
  Result<Compiled> run(const CompileRequest& request) override {
    CompilerRun run{.source = request.name + ".cpp", .output = request.name + ".so"};
    run.command = host_compile_command(compiler_.path, request.options, options_, run.source, run.output);
    run.limit_seconds = limit_seconds_;
    Result<CompilerOutput> made = run_compiler(request, run);
    if (!made) return tl::unexpected(made.error());
    return Compiled{.binary = std::move(made->binary), .log = std::move(made->log)};
  }

  Status as_identified(Look look) const override { return compiler_.unchanged(look == Look::thorough); }

  std::string word_;
  IdentifiedCompiler compiler_;
  std::vector<std::string_view> options_;
  std::string identity_;
  double limit_seconds_;
};

}  // namespace

std::vector<std::string> host_compile_command(const std::string& compiler,
                                              const std::vector<std::string>& options,
                                              std::span<const std::string_view> of_compiler,
                                              const std::string& source, const std::string& output) {
  std::vector<std::string> command = {compiler};
  command.insert(command.end(), options.begin(), options.end());
  const std::vector<std::string> more = added(of_compiler);
  command.insert(command.end(), more.begin(), more.end());
  command.insert(command.end(), {"-o", output, source});
  return command;
}

std::vector<std::string> host_compiler_words(const std::string& setting) {
  if (!setting.empty()) return {setting};
  return {"c++", "g++", "clang++"};
}

Result<std::unique_ptr<Toolchain>> find_host_compiler(const std::string& setting, const std::string& path,
                                                      double limit_seconds, CompilerMemory* memory) {
  std::string unusable;
  for (const std::string& word : host_compiler_words(setting)) {
    const std::string program = find_program(word, path);
    if (program.empty()) continue;
    const Result<IdentifiedCompiler> compiler = identified(program, memory);
    if (compiler) return std::make_unique<HostCompiler>(word, *compiler, limit_seconds);
    if (is_scarce(compiler)) return tl::unexpected(compiler.error());
    unusable += fmt::format("; {} {}", in_quotes(program + " -v"), compiler.error().message);
  }
  if (!setting.empty()) {
    return fail(ErrorKind::no_kernel,
                fmt::format("REGARD_CXX={} is not a compiler that can be run{}; set it to the path of one "
                            "program, without options, or unset it to search c++, g++, clang++ on PATH",
                            in_quotes(setting), unusable));
  }
  return fail(ErrorKind::no_kernel, fmt::format("no host C++ compiler: searched c++, g++, clang++ on PATH "
                                                "({}){}; install g++ or set REGARD_CXX",
                                                printable(path), unusable));
}

}  // namespace regard
