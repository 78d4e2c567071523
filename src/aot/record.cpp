#include "aot/record.h"

#include <fmt/format.h>

#include <unordered_set>

#include "base/files.h"
#include "base/interruption.h"
#include "base/text.h"
#include "plan/record_line.h"

namespace regard::aot {
namespace {

/// Half a million problems; no program run has recorded more.
constexpr std::uint64_t longest_record = 64 << 20;

Result<Record::Line> parse_line(std::string_view line, int number) {
  const std::size_t at = line.find(bar_of_record);
  if (at == std::string_view::npos) {
    return invalid(fmt::format(
        "{} is not a line that REGARD_RECORD writes, such as 'cpu-avx2 | fwd bf16 b=1 h=8 s=512 d=64'",
        in_quotes(line)));
  }
  const Result<const Target*> target = find_target(line.substr(0, at));
  if (!target) return tl::unexpected(target.error());
  const Result<Problem> problem = parse(line.substr(at + bar_of_record.size()));
  if (!problem) return tl::unexpected(problem.error());
  if (Status status = validate(*problem); !status) return tl::unexpected(status.error());
  return Record::Line{*target, *problem, number};
}

struct Seen {
  const Target* target;
  Problem problem;
  friend bool operator==(const Seen&, const Seen&) = default;
};
struct SeenHash {
  std::size_t operator()(const Seen& seen) const {
    return hash(seen.problem) ^ std::hash<const Target*>{}(seen.target);
  }
};

}  // namespace

Result<Record> parse_record(std::string_view text, std::string_view file) {
  Record record;
  std::unordered_set<Seen, SeenHash> seen;
  for (int number = 1; !text.empty(); ++number) {
    if (interrupted()) return fail(ErrorKind::interrupted, "interrupted while a record was read");
    const std::size_t end = text.find('\n');
    bool whole = end != std::string_view::npos;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(whole ? end + 1 : text.size());
    if (line.ends_with(end_of_cut_line)) {
      line.remove_suffix(end_of_cut_line.size());
      whole = false;
    }
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || line.starts_with('#')) continue;
    if (!whole) {  // even where it can be parsed: the missing part may have been the end of a number
      record.left_out.push_back(
          fmt::format("{}:{}: the line {} is left out, as it is not whole: a process ended while it wrote it",
                      file, number, in_quotes(line)));
      continue;
    }
    Result<Record::Line> read = parse_line(line, number);
    if (!read) return fail(read.error().kind, fmt::format("{}:{}: {}", file, number, read.error().message));
    if (seen.insert({read->target, read->problem}).second) record.lines.push_back(*read);
  }
  return record;
}

Result<Record> read_record(const std::string& path) {
  const Result<std::string> text = read_file(path, longest_record, Links::followed);
  if (!text) {
    return fail(text.error().kind,
                fmt::format("the record {} cannot be read: {}", in_quotes(path), text.error().message));
  }
  return parse_record(*text, printable(path));
}

}  // namespace regard::aot
