#include "compile/compiler_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/files.h"
#include "base/result.h"
#include "base/text.h"
#include "compile/process.h"
#include "compile/scratch_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

}  // namespace

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

Result<CompilerOutput> run_compiler(const CompileRequest& request, const CompilerRun& run) {
  Result<ScratchFolder> folder = ScratchFolder::make();
  if (!folder) return tl::unexpected(folder.error());
  if (Status status = folder->write(run.source, request.source); !status)
    return tl::unexpected(status.error());
  const Result<Finished> finished =
      run_process(run.command, folder->path(),
                  {.seconds = run.limit_seconds, .environment = {"TMPDIR=" + folder->path()}});
  if (!finished) return tl::unexpected(finished.error());

  // A compiler can be any program, and can leave anything.
  bool missing = false;
  const auto read = [&](const std::string& name) {
    return read_file(folder->path() + "/" + name, largest_binary_bytes, Links::refused, &missing);
  };
  const Result<std::string> binary = finished->succeeded ? read(run.output) : "";
  if (is_scarce(binary)) return tl::unexpected(binary.error());
  if (!binary || binary->empty()) {
    std::string how = finished->how;
    if (finished->succeeded)
      how +=
          binary || missing ? ", but no output" : ", but its output is of no use: " + binary.error().message;
    const std::string here = folder->path();
    // No one needs to look at a source whose compile only lacked disk space or descriptors.
    const bool scarce = says_scarce(finished->output);
    const Result<std::string> kept =
        scarce ? fail(ErrorKind::no_memory, "memory, files or disk ran out") : folder->keep(request.source);
    return fail(scarce ? ErrorKind::no_memory : ErrorKind::no_kernel,
                fmt::format("compiling {} failed ({}); command, {} in {}: {}; {}; the compiler said:\n{}",
                            request.name, how, kept ? "to be run" : "run", in_quotes(kept.value_or(here)),
                            shell_text(run.command), kept_source(kept, run.source),
                            finished->output.empty() ? "(nothing)" : finished->output));
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*binary));
  return CompilerOutput{{bytes.begin(), bytes.end()},
                        finished->output,
                        run.beside.empty() ? "" : read(run.beside).value_or("")};
}

}  // namespace regard
