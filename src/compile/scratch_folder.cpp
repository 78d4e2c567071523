#include "compile/scratch_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/descriptor.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/result.h"
#include "base/temporary.h"
#include "base/text.h"

namespace regard {
namespace {

/// Not a link, and not another user's.
bool is_own_folder(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

}  // namespace

ScratchFolder::ScratchFolder(std::string path)
    : path_(std::move(path)), mark_(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (mark_) mark_in_use(mark_.number());
}

Result<ScratchFolder> ScratchFolder::make() {
  static std::atomic<bool> cleared{false};  // removes what killed processes left, once per process
  if (!cleared.exchange(true)) remove_abandoned_temporaries();
  const std::string parent = temporary_folder();
  std::string path = parent + "/" + std::string(temporary_prefix) + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return fail(kind_of(errno, ErrorKind::no_kernel),
                fmt::format("cannot make a folder for the compile in {}: {}; "
                            "set TMPDIR to a folder that can be written",
                            in_quotes(parent), std::strerror(errno)));
  }
  ScratchFolder folder(path);
  if (folder.mark_) return folder;
  const int error = errno;
  rmdir(path.c_str());  // which needs no descriptor, unlike removing everything in a folder
  folder.path_.clear();
  return fail(
      kind_of(error, ErrorKind::no_kernel),
      fmt::format("cannot open {}, the folder for a compile: {}", in_quotes(path), std::strerror(error)));
}

ScratchFolder::~ScratchFolder() {
  if (path_.empty()) return;
  remove_files();
  if (rmdir(path_.c_str()) == 0) return;
  mark_ = ForkPrivateFd();  // releases the descriptor that is needed now
  remove_all(path_.c_str());
}

void ScratchFolder::remove_files() const {
  // Through the existing descriptor: there may be no free one, and no memory either.
  alignas(dirent64) char block[4096];
  lseek(mark_.number(), 0, SEEK_SET);
  for (ssize_t bytes; (bytes = getdents64(mark_.number(), block, sizeof block)) > 0;) {
    for (ssize_t at = 0; at < bytes;) {
      const auto* item = reinterpret_cast<const dirent64*>(block + at);
      unlinkat(mark_.number(), item->d_name, 0);
      at += item->d_reclen;
    }
  }
}

Result<std::string> ScratchFolder::keep(const std::string& source) {
  const std::size_t name = path_.rfind(temporary_prefix);
  std::string kept = fmt::format("{}{}{}-{}", path_.substr(0, name), kept_prefix, geteuid(),
                                 sha256(source).hex().substr(0, 16));
  bool moved = rename(path_.c_str(), kept.c_str()) == 0;
  const bool is_there = !moved && errno != ENOENT;
  if (is_there && is_own_folder(kept)) {
    remove_all(kept.c_str());
    moved = rename(path_.c_str(), kept.c_str()) == 0;
  }
  if (is_there && !moved) {  // the path is another user's, or was just filled by another process
    kept = path_;
    kept.replace(name, temporary_prefix.size(), kept_prefix);
    moved = rename(path_.c_str(), kept.c_str()) == 0;
  }
  if (!moved) {
    return fail(ErrorKind::no_kernel, fmt::format("{} cannot be renamed to {}: {}", in_quotes(path_),
                                                  in_quotes(kept), std::strerror(errno)));
  }
  path_.clear();
  return kept;
}

Status ScratchFolder::write(const std::string& name, const std::string& text) const {
  const std::string path = path_ + "/" + name;
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file && write_all(file.number(), std::as_bytes(std::span(text)))) return {};
  const int error = errno;
  return fail(kind_of(error, ErrorKind::no_kernel),
              fmt::format("cannot write {}: {}", in_quotes(path), std::strerror(error)));
}

std::string kept_source(const Result<std::string>& kept, const std::string& name) {
  if (kept) return fmt::format("the source is kept in {}", in_quotes(*kept + "/" + name));
  return "the source is not kept: " + kept.error().message;
}

std::string keep_source(const std::string& name, const std::string& source) {
  Result<ScratchFolder> folder = ScratchFolder::make();
  if (!folder) return kept_source(tl::unexpected(folder.error()), name);
  const Status written = folder->write(name, source);
  return kept_source(written ? folder->keep(source) : tl::unexpected(written.error()), name);
}

}  // namespace regard
