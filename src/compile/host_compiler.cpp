#include "compile/host_compiler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/own_descriptor.h"
#include "base/temporary.h"
#include "base/write_file.h"
#include "compile/job_gate.h"
#include "compile/process.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

// Added to every command, so part of the identity.
constexpr std::string_view shared_object[] = {"-shared", "-x", "c++"};

/// A private folder that goes away, with this object or by gc, unless it is kept.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    const std::string parent = temporary_folder();
    std::string path = parent + "/" + std::string(temporary_prefix) + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return fail(ErrorKind::no_kernel,
                  fmt::format("cannot make a folder for the compile in '{}': {}; set TMPDIR to a folder that "
                              "can be written",
                              parent, std::strerror(errno)));
    }
    return ScratchFolder(path);
  }
  ScratchFolder(ScratchFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), mark_(std::move(other.mark_)) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  /// Where it is from now on.
  std::string keep() {
    std::string kept = std::exchange(path_, {}), renamed = kept;
    renamed.replace(renamed.rfind(temporary_prefix), temporary_prefix.size(), kept_prefix);
    return rename(kept.c_str(), renamed.c_str()) == 0 ? renamed : kept;
  }

 private:
  explicit ScratchFolder(std::string path)
      : path_(std::move(path)), mark_(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (mark_) mark_in_use(mark_.number());
  }
  std::string path_;
  OwnDescriptor mark_;
};

bool write_file(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool written = write_all(file, std::as_bytes(std::span(text)));
  const int error = errno;
  close(file);
  errno = error;
  return written;
}

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

  std::string name() const override { return fmt::format("{} ({})", word_, path_); }
  std::string identity() const override { return identity_; }

  Result<Compiled> compile(const CompileRequest& request) override {
    static std::atomic<bool> cleared{false};  // of what killed processes left, once per process
    if (!cleared.exchange(true)) remove_abandoned_temporaries();
    Result<ScratchFolder> folder = ScratchFolder::make();
    if (!folder) return tl::unexpected(folder.error());
    const std::string source = request.name + ".cpp", output = request.name + ".so";
    const std::string source_path = folder->path() + "/" + source;
    if (!write_file(source_path, request.source)) {
      return fail(ErrorKind::no_kernel,
                  fmt::format("cannot write '{}': {}; is the disk full?", source_path, std::strerror(errno)));
    }
    // Names relative to the folder keep its random name out of the binary: same source, same bytes.
    const std::vector<std::string> command = host_compile_command(path_, request.options, source, output);

    const CompileSlot slot(limit_seconds_);
    bool slow = false;
    const ProcessLimits limits{.seconds = limit_seconds_,
                               .slow =
                                   [&] {
                                     slow = true;
                                     tell("compile",
                                          fmt::format("compiling {} with {}", request.name, path_));
                                   },
                               .environment = {"TMPDIR=" + folder->path()}};
    const Result<Finished> finished = run_process(command, folder->path(), limits);
    if (!finished) return tl::unexpected(finished.error());
    if (slow) {
      tell("compile", fmt::format("{} {} after {:.1f} s", request.name,
                                  finished->succeeded ? "compiled" : "failed", finished->seconds));
    }

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
    return Compiled{std::move(binary), finished->output, finished->seconds};
  }

 private:
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

// "gcc version 12.2.0 (Debian 12.2.0-14)", "clang version 19.1.7 (https://... 0123abcd)" and "Target:
// x86_64-..."
std::string compiler_identity(std::string_view verbose_text) {
  std::string version, target;
  while (!verbose_text.empty()) {
    const std::size_t end = std::min(verbose_text.find('\n'), verbose_text.size());
    const std::string line(verbose_text.substr(0, end));
    verbose_text.remove_prefix(std::min(end + 1, verbose_text.size()));
    if (line.starts_with("Target:")) {
      target = line;
    } else if (version.empty() && !line.starts_with("Configured with") &&
               line.find(" version ") != std::string::npos) {
      version = line;
    }
  }
  while (!version.empty() && version.back() == ' ') version.pop_back();
  return version.empty() ? "" : version + "; " + target;
}

Result<std::unique_ptr<Toolchain>> find_host_compiler(const std::string& setting, const std::string& path,
                                                      double limit_seconds) {
  const std::vector<std::string> words =
      setting.empty() ? std::vector<std::string>{"c++", "g++", "clang++"} : std::vector<std::string>{setting};
  std::string unusable;
  for (const std::string& word : words) {
    const std::string program = find_program(word, path);
    if (program.empty()) continue;
    const Result<Finished> asked = run_process({program, "-v"}, "/", {.seconds = 20});
    const std::string version = asked && asked->succeeded ? compiler_identity(asked->output) : "";
    if (!version.empty()) {
      return std::make_unique<HostCompiler>(word, program, version, limit_seconds);
    }
    unusable += fmt::format("; '{} -v' {}", program,
                            !asked             ? "cannot be run"
                            : asked->succeeded ? "names no compiler version"
                                               : "ended with " + asked->how);
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
