#include "compile/compiler_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <span>

#include "base/files.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

/// A script could call anything.
bool is_binary(const std::string& path) {
  char magic[4] = "";
  const Result<RegularFile> file = RegularFile::open(path, Links::followed);
  return file && file->read(std::as_writable_bytes(std::span(magic))) &&
         std::memcmp(magic, "\177ELF", sizeof magic) == 0;
}

}  // namespace

std::string state_of_program(const std::string& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  struct stat status;
  if (error || stat(file.c_str(), &status) != 0) return "";
  return fmt::format("{} {} device {} inode {} size {} written {}.{:09} changed {}.{:09}", path,
                     file.string(), status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

Result<CompilerAnswer> recall_or_ask(CompilerMemory* memory, const std::string& file, const std::string& how,
                                     const std::function<Result<CompilerAnswer>()>& ask) {
  const std::string state = memory != nullptr && is_binary(file) ? state_of_program(file) : "";
  const std::string question = state.empty() ? "" : state + how;
  if (!state.empty()) {
    if (std::optional<std::string> identity = memory->recall(question)) return CompilerAnswer{*identity};
  }
  Result<CompilerAnswer> answer = ask();
  // It may have been replaced while it ran.
  if (answer && !state.empty() && answer->lasting && state_of_program(file) == state)
    memory->remember(question, answer->identity);
  return answer;
}

}  // namespace regard
