// A file that appears whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace regard::cli {

/// Written without a name where the file system can do that, so that nothing is left of it however the
/// process ends; else under another name, which is removed again. Failures are errors that name the file.
/// Signals are held meanwhile (HeldSignals); one that arrives ends the writing.
class NewFile {
 public:
  /// To be `path`, whose folder need not be there before it is published. A link to a file stands for that
  /// file.
  explicit NewFile(std::string path, bool without_name = true);
  ~NewFile();
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;

  void write(std::span<const std::byte> bytes);
  /// In place of what has the name so far, with the permissions of a file that is there.
  void publish();

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(int error) const;
  void keep_permissions();
  void link();

  std::string path_;
  std::string place_;                  ///< the same without links
  std::optional<mode_t> permissions_;  ///< of the file that is there
  std::string folder_;                 ///< the nearest that is there, so on the same file system
  std::string name_;                   ///< what it is called meanwhile; empty: nothing
  int file_;
};

}  // namespace regard::cli
