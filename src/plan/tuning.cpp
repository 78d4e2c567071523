#include "plan/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <set>

#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"

namespace regard {
namespace {

void write(JsonWriter& json, std::string_view name, std::int64_t number) {
  json.member(name, number);
}
void write(JsonWriter& json, std::string_view name, const std::string& text) {
  json.member(name, text);
}
template <class Value>
void write(JsonWriter& json, std::string_view name, const std::map<std::string, Value>& all) {
  json.member(name, [&] {
    json.object([&] {
      for (const auto& [key, value] : all) json.member(key, value);
    });
  });
}

constexpr std::string_view field_names[] = {
#define REGARD_NAME(type, name, doc) #name,
    REGARD_TUNING_FIELDS(REGARD_NAME)
#undef REGARD_NAME
};

using Kind = JsonEvent::Kind;

Status wrong_type(std::string_view name, std::string_view expected) {
  return invalid(fmt::format("{} is not {}", name, expected));
}

// A member of the record; for an object the same function gets the object's beginning and its members.
Status read(const JsonEvent& json, std::string_view name, std::int64_t& number) {
  if (json.kind != Kind::integer) return wrong_type(name, "a whole number");
  number = json.integer;
  return {};
}
Status read(const JsonEvent& json, std::string_view name, std::string& text) {
  if (json.kind != Kind::text) return wrong_type(name, "a text");
  text = json.text;
  return {};
}
Status read_value(const JsonEvent& json, double& number) {
  const bool is_number = json.kind == Kind::integer || json.kind == Kind::real;
  if (!is_number || !(json.real > 0)) return wrong_type(json.key, "a positive number");
  number = json.real;
  return {};
}
Status read_value(const JsonEvent& json, std::string& text) {
  return read(json, json.key, text);
}
template <class Value>
Status read(const JsonEvent& json, std::string_view name, std::map<std::string, Value>& all) {
  if (json.depth == 1) return json.kind == Kind::object ? Status() : wrong_type(name, "an object");
  return read_value(json, all[std::string(json.key)]);
}

/// A day that exists, as YYYY-MM-DD.
bool is_date(std::string_view text) {
  constexpr std::string_view form = "dddd-dd-dd";
  if (text.size() != form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i)
    if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i]) return false;
  const auto number = [text](std::size_t first, std::size_t digits) {
    int value = 0;
    for (const char digit : text.substr(first, digits)) value = value * 10 + (digit - '0');
    return value;
  };
  return std::chrono::year_month_day(std::chrono::year(number(0, 4)),
                                     std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                     std::chrono::day(static_cast<unsigned>(number(8, 2))))
      .ok();
}

/// The members of one record, as they come.
class RecordReader {
 public:
  Status take(const JsonEvent& json) {
    if (json.kind == Kind::end) return {};
    if (json.depth == 0) return json.kind == Kind::object ? Status() : invalid("it is not a JSON object");
    if (json.depth == 1) {
      member_ = json.key;
      if (!given_.insert(member_).second) return invalid(member_ + " is given twice");
    }
#define REGARD_READ(type, name, doc) \
  if (member_ == #name) return read(json, #name, record_.name);
    REGARD_TUNING_FIELDS(REGARD_READ)
#undef REGARD_READ
    return invalid(fmt::format("unknown member {}{}", in_quotes(member_), suggestion(member_, field_names)));
  }

  Result<TunedProblem> finish() {
    if (given_.contains("tuning") && record_.tuning != tuning_format)
      return invalid(fmt::format("its format is {}, and this version of Regard reads {}; tune again",
                                 record_.tuning, tuning_format));
    for (const std::string_view name : field_names)
      if (!given_.contains(std::string(name))) return invalid(fmt::format("it lacks {}", name));
    if (record_.threads < 0)
      return invalid(
          fmt::format("threads is {}; it is at least 1 on a CPU, and 0 on a GPU", record_.threads));
    if (!is_date(record_.date))
      return invalid(fmt::format("date is {}; it is a day such as 2026-11-30", in_quotes(record_.date)));
    const Result<Problem> problem = parse(record_.problem);
    if (!problem) return tl::unexpected(problem.error());
    if (Status status = validate(*problem); !status) return tl::unexpected(status.error());
    return TunedProblem{std::move(record_), bucket_of(*problem)};
  }

 private:
  TuningRecord record_;
  std::string member_;  ///< of the record; in an object, the one that holds it
  std::set<std::string> given_;
};

Result<TunedProblem> parse_record(std::string_view line) {
  RecordReader reader;
  const Status status = read_json(line, "it", [&](const JsonEvent& json) { return reader.take(json); });
  if (!status) return tl::unexpected(status.error());
  return reader.finish();
}

/// The exponent of a power of two.
int exponent(std::int64_t power) {
  return std::countr_zero(static_cast<std::uint64_t>(power));
}

std::int64_t power_of_two(std::int64_t size) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(size, 1, most))));
}

/// The sizes by which buckets of one kind of problem differ.
constexpr std::int64_t Problem::* sizes[] = {&Problem::b, &Problem::sq, &Problem::sk};
constexpr int most_steps = 2;  ///< a factor of four

/// Powers of two between two buckets; -1: too many, or other problems.
int steps_between(const Problem& one, const Problem& other) {
  Problem same = other;
  int steps = 0;
  for (const auto size : sizes) {
    same.*size = one.*size;
    const int here = std::abs(exponent(one.*size) - exponent(other.*size));
    if (here > most_steps) return -1;
    steps += here;
  }
  return same == one ? steps : -1;
}

}  // namespace

std::string print(const TuningRecord& record) {
  JsonWriter json;
  json.object([&] {
#define REGARD_WRITE(type, name, doc) write(json, #name, record.name);
    REGARD_TUNING_FIELDS(REGARD_WRITE)
#undef REGARD_WRITE
  });
  return json.take();
}

std::string tuning_markdown() {
  std::string markdown = "| member | meaning |\n|---|---|\n";
#define REGARD_ROW(type, name, doc) markdown += "| `" #name "` | " doc " |\n";
  REGARD_TUNING_FIELDS(REGARD_ROW)
#undef REGARD_ROW
  return markdown;
}

Result<std::vector<TunedProblem>> parse_tuning(std::string_view text, std::string_view file_name) {
  std::vector<TunedProblem> records;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Result<TunedProblem> record = parse_record(line);
    if (!record)
      return fail(record.error().kind, fmt::format("{}:{}: not a tuning record: {}", printable(file_name),
                                                   number, record.error().message));
    records.push_back(std::move(*record));
  }
  return records;
}

Problem bucket_of(const Problem& problem) {
  Problem bucket = problem;
  const Problem defaults;
  for (const auto size : sizes) bucket.*size = power_of_two(problem.*size);
  for (const auto size : {&Problem::tq, &Problem::tk, &Problem::cache, &Problem::pages, &Problem::rope_rows})
    bucket.*size = defaults.*size;
  for (const auto size : {&Problem::snew, &Problem::tnew}) bucket.*size = problem.*size > 0;
  bucket.scale = defaults.scale;
  bucket.keep_scale = defaults.keep_scale;
  bucket.layout = defaults.layout;
  if (problem.softcap != 0) bucket.softcap = 1;
  if (problem.dropout != 0) bucket.dropout = 0.5;
  return bucket;
}

std::vector<const TunedProblem*> nearest_records(std::span<const TunedProblem> records,
                                                 const Problem& problem, std::string_view target) {
  const Problem bucket = bucket_of(problem);
  std::vector<std::pair<int, const TunedProblem*>> near;
  for (const TunedProblem& one : records) {
    if (one.record.target != target) continue;
    if (const int steps = steps_between(bucket, one.bucket); steps >= 0) near.emplace_back(steps, &one);
  }
  std::ranges::sort(near, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  std::vector<const TunedProblem*> sorted;
  for (const auto& [steps, one] : near) sorted.push_back(one);
  return sorted;
}

}  // namespace regard
