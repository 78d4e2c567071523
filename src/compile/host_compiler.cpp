#include "compile/host_compiler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "compile/process.h"
#include "compile/scratch_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

// Added to every command, so part of the identity.
constexpr std::string_view shared_object[] = {"-shared", "-x", "c++"};

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class HostCompiler final : public Toolchain {
 public:
  HostCompiler(std::string word, std::string path, std::string version, double limit_seconds)
      : word_(std::move(word)),
        path_(std::move(path)),
        identity_(fmt::format("{}; {}", version, fmt::join(shared_object, " "))),
        limit_seconds_(limit_seconds) {}

  std::string name() const override { return word_ == path_ ? path_ : fmt::format("{} ({})", word_, path_); }
  std::string identity() const override { return identity_; }

 private:
  Result<Compiled> run(const CompileRequest& request) override {
    Result<ScratchFolder> folder = ScratchFolder::make();
    if (!folder) return tl::unexpected(folder.error());
    const std::string source = request.name + ".cpp", output = request.name + ".so";
    if (Status status = folder->write(source, request.source); !status) return tl::unexpected(status.error());
    // Names relative to the folder keep its random name out of the binary: same source, same bytes.
    const std::vector<std::string> command = host_compile_command(path_, request.options, source, output);
    const Result<Finished> finished = run_process(
        command, folder->path(), {.seconds = limit_seconds_, .environment = {"TMPDIR=" + folder->path()}});
    if (!finished) return tl::unexpected(finished.error());

    std::vector<std::byte> binary;
    if (finished->succeeded) binary = read_file(folder->path() + "/" + output);
    if (binary.empty()) {
      const std::string kept = folder->keep();
      return fail(
          ErrorKind::no_kernel,
          fmt::format("compiling {} failed ({}); command, to be run in '{}': {}; the source is kept "
                      "in '{}/{}'; the compiler said:\n{}",
                      request.name, finished->succeeded ? "no output, " + finished->how : finished->how, kept,
                      shell_text(command), kept, source,
                      finished->output.empty() ? "(nothing)" : finished->output));
    }
    return Compiled{.binary = std::move(binary), .log = finished->output};
  }

  std::string word_, path_, identity_;
  double limit_seconds_;
};

/// The absolute path of a program, or empty. A word with a slash is a path; others are searched.
std::string find_program(const std::string& word, const std::string& path) {
  const auto runs = [](const fs::path& file) {
    std::error_code ignored;
    return fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
  };
  if (word.find('/') != std::string::npos) return runs(word) ? fs::absolute(word).string() : "";
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    const fs::path file = fs::path(path.substr(start, end - start)) / word;
    if (end > start && runs(file)) return fs::absolute(file).string();
    start = end + 1;
  }
  return "";
}

}  // namespace

std::vector<std::string> host_compile_command(const std::string& compiler,
                                              const std::vector<std::string>& options,
                                              const std::string& source, const std::string& output) {
  std::vector<std::string> command = {compiler};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), std::begin(shared_object), std::end(shared_object));
  command.insert(command.end(), {"-o", output, source});
  return command;
}

Result<std::unique_ptr<Toolchain>> find_host_compiler(const std::string& setting, const std::string& path,
                                                      double limit_seconds, CompilerMemory* memory) {
  const std::vector<std::string> words =
      setting.empty() ? std::vector<std::string>{"c++", "g++", "clang++"} : std::vector<std::string>{setting};
  std::string unusable;
  for (const std::string& word : words) {
    const std::string program = find_program(word, path);
    if (program.empty()) continue;
    const Result<std::string> version = identify_compiler(program, memory);
    if (version) return std::make_unique<HostCompiler>(word, program, *version, limit_seconds);
    unusable += fmt::format("; '{} -v' {}", program, version.error().message);
  }
  if (!setting.empty()) {
    return fail(ErrorKind::no_kernel,
                fmt::format("REGARD_CXX='{}' is not a compiler that can be run{}; set it to the path of one "
                            "program, without options, or unset it to search c++, g++, clang++ on PATH",
                            setting, unusable));
  }
  return fail(ErrorKind::no_kernel, fmt::format("no host C++ compiler: searched c++, g++, clang++ on PATH "
                                                "({}){}; install g++ or set REGARD_CXX",
                                                path, unusable));
}

}  // namespace regard
