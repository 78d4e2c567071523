#include "aot/outputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

namespace regard::aot {
namespace {

constexpr const char* name_of_report = "manifest.json";
constexpr std::uint64_t longest_report = 1 << 30;

tl::unexpected<Error> cannot_write(const std::string& path, std::string_view why) {
  return invalid(fmt::format("cannot write {}: {}", in_quotes(path), why));
}

tl::unexpected<Error> cannot_write(const std::string& path, int error) {
  return fail(kind_of(error, ErrorKind::invalid),
              fmt::format("cannot write {}: {}", in_quotes(path), std::strerror(error)));
}

tl::unexpected<Error> is_of_somebody_else(const std::string& path) {
  return invalid(
      fmt::format("{} is there, and no build has made it; move it away or choose another folder (--output)",
                  in_quotes(path)));
}

/// A report may come from anywhere: a name that leads out of the folder is not accepted.
bool leads_into_the_folder(std::string_view name) {
  return std::ranges::none_of(
      split(name, "/"), [](std::string_view part) { return part.empty() || part == "." || part == ".."; });
}

/// The files that a report lists; nothing where the text is not a report.
std::optional<Names> files_of_report(std::string_view text) {
  std::optional<Names> files;
  bool in_list = false;
  const Status read = read_json(text, "the report", [&](const JsonEvent& event) {
    if (event.depth <= 1) in_list = event.key == "files" && event.kind == JsonEvent::Kind::list;
    if (in_list && !files) files.emplace();
    if (in_list && event.depth == 2 && event.kind == JsonEvent::Kind::text &&
        leads_into_the_folder(event.text))
      files->emplace(event.text);
    return Status();
  });
  return read ? files : std::nullopt;
}

/// The folders above a name: "lib", "lib/cmake".
std::vector<std::string> folders_above(const std::string& name) {
  std::vector<std::string> folders;
  for (std::size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1))
    folders.push_back(name.substr(0, end));
  return folders;
}

/// Without following a link at its end.
bool is_there(const std::string& path, struct stat& status) {
  return lstat(path.c_str(), &status) == 0;
}

Status sync(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file || fsync(file.number()) != 0) return cannot_write(path, errno);
  return {};
}

}  // namespace

Result<Outputs> Outputs::of(const Folder& folder, std::vector<std::string> inputs) {
  Outputs outputs(folder.path());
  outputs.inputs_ = std::move(inputs);
  if (Status status = outputs.check_is_no_input(name_of_report); !status)
    return tl::unexpected(status.error());
  const std::string path = outputs.path_of(name_of_report);
  bool missing = false;
  const Result<std::string> text = read_file(path, longest_report, Links::refused, &missing);
  if (missing) return outputs;
  if (!text) {
    return fail(text.error().kind,
                fmt::format("the report {} cannot be read: {}", in_quotes(path), text.error().message));
  }
  std::optional<Names> files = files_of_report(*text);
  if (!files) return is_of_somebody_else(path);
  outputs.earlier_ = std::move(*files);
  return outputs;
}

Status Outputs::check_is_no_input(const std::string& name) const {
  const std::string path = path_of(name);
  struct stat status, other;
  if (!is_there(path, status)) return {};
  for (const std::string& input : inputs_) {
    if (stat(input.c_str(), &other) != 0) continue;
    if (status.st_dev == other.st_dev && status.st_ino == other.st_ino)
      return cannot_write(path, "this build reads it; choose another folder (--output)");
  }
  return {};
}

Status Outputs::check_location(const std::string& name) const {
  struct stat status;
  for (const std::string& above : folders_above(name)) {
    if (!is_there(path_of(above), status)) break;
    if (!S_ISDIR(status.st_mode)) {
      return cannot_write(path_of(name), fmt::format("{} is {}", in_quotes(path_of(above)),
                                                     S_ISLNK(status.st_mode) ? "a link" : "no folder"));
    }
  }
  if (!is_there(path_of(name), status)) return {};
  if (S_ISLNK(status.st_mode)) return cannot_write(path_of(name), "it is a link");
  if (!S_ISREG(status.st_mode)) return cannot_write(path_of(name), "it is not a file");
  if (!earlier_.contains(name)) return is_of_somebody_else(path_of(name));
  return {};
}

Status Outputs::check(const Names& names) const {
  for (const Names* some : {&names, &earlier_}) {
    for (const std::string& name : *some)
      if (Status status = check_is_no_input(name); !status) return status;
  }
  for (const std::string& name : names)
    if (Status status = check_location(name); !status) return status;
  return {};
}

/// Also removes the folders above it that become empty.
void Outputs::remove(const std::string& name) const {
  struct stat status;
  std::vector<std::string> above = folders_above(name);
  for (const std::string& folder : above)
    if (!is_there(path_of(folder), status) || !S_ISDIR(status.st_mode)) return;
  if (unlink(path_of(name).c_str()) != 0) return;
  for (; !above.empty(); above.pop_back())
    if (rmdir(path_of(above.back()).c_str()) != 0) return;
}

Status Outputs::replace(const std::string& staged, const Names& names,
                        const std::function<std::string(const Names& files)>& report) const {
  // Everything that can fail comes before anything of the previous build is changed.
  if (Status status = check(names); !status) return status;
  for (const std::string& name : names) {
    if (Status status = sync(staged + "/" + name); !status) return status;
    for (const std::string& above : folders_above(name))
      if (mkdir(path_of(above).c_str(), 0777) != 0 && errno != EEXIST)
        return cannot_write(path_of(name), errno);
  }
  const auto write_report = [&](const Names& files) {
    return write_atomic_file(path_of(name_of_report), report(files));
  };
  Names all = earlier_;
  all.insert(names.begin(), names.end());
  if (Status status = write_report(all); !status) return status;
  for (const std::string& name : names)
    if (std::rename((staged + "/" + name).c_str(), path_of(name).c_str()) != 0)
      return cannot_write(path_of(name), errno);
  if (all == names) return {};
  for (const std::string& name : earlier_)
    if (!names.contains(name)) remove(name);
  return write_report(names);
}

}  // namespace regard::aot
