#include "compile/compiler_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace regard {
namespace {

namespace fs = std::filesystem;

/// Changes when the file is replaced or written to. Nothing for what is no binary: a script may call
/// anything.
std::optional<std::string> state_of(const std::string& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  char magic[4] = "";
  struct stat status;
  if (error || !std::ifstream(file, std::ios::binary).read(magic, sizeof magic) ||
      std::memcmp(magic, "\177ELF", sizeof magic) != 0 || stat(file.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return fmt::format("{} {} inode {} size {} written {}.{:09} changed {}.{:09}", path, file.string(),
                     status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                     status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

}  // namespace

Result<std::string> recall_or_ask(CompilerMemory* memory, const std::string& file, const std::string& how,
                                  const std::function<Result<CompilerAnswer>()>& ask) {
  const std::optional<std::string> state = memory != nullptr ? state_of(file) : std::nullopt;
  const std::string question = state ? *state + how : "";
  if (state) {
    if (std::optional<std::string> identity = memory->recall(question)) return *std::move(identity);
  }
  const Result<CompilerAnswer> answer = ask();
  if (!answer) return tl::unexpected(answer.error());
  // It may have been replaced while it was asked.
  if (state && answer->lasting && state_of(file) == state) memory->remember(question, answer->identity);
  return answer->identity;
}

}  // namespace regard
