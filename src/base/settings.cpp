#include "base/settings.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/log.h"
#include "base/nearest.h"
#include "base/process.h"
#include "base/process_lifetime.h"
#include "base/text.h"

namespace regard {
namespace {

constexpr std::string_view prefix = "REGARD_";

Status read(std::string_view name, std::string_view value, bool& out) {
  const std::string word = lower(value);
  for (std::string_view yes : {"1", "on", "true", "yes"}) {
    if (word == yes) return out = true, Status{};
  }
  for (std::string_view no : {"0", "off", "false", "no"}) {
    if (word == no) return out = false, Status{};
  }
  return invalid(std::string(name) + "=" + in_quotes(value) +
                 " is not understood; use 1, on, true or yes, or 0, off, false or no");
}

Status read(std::string_view, std::string_view value, std::string& out) {
  out = value;
  return {};
}

Status read(std::string_view, std::string_view value, Url& out) {
  out.text = value;
  return {};
}

Status read(std::string_view name, std::string_view value, SaveCalls& out) {
  Result<SaveCalls> parsed = parse_save_calls(value);
  if (!parsed) return invalid(std::string(name) + "=" + in_quotes(value) + parsed.error().message);
  out = *std::move(parsed);
  return {};
}

/// A list without elements would silently be no list.
template <char separator>
Status read(std::string_view name, std::string_view value, ListOf<separator>& out) {
  out.text = value;
  if (!out.items().empty()) return {};
  return invalid(std::string(name) + "=" + in_quotes(value) + " names nothing; name something, or unset it");
}

Status read(std::string_view name, std::string_view value, std::int64_t& out) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error == std::errc::result_out_of_range && end == value.data() + value.size() && value[0] != '-') {
    return invalid(std::string(name) + "=" + in_quotes(value) + " is too large; the largest number is " +
                   std::to_string(std::numeric_limits<std::int64_t>::max()));
  }
  if (error != std::errc{} || end != value.data() + value.size() || out < 0) {
    return invalid(std::string(name) + "=" + in_quotes(value) +
                   " is not a whole number in plain digits, 0 or more");
  }
  return {};
}

/// An unset variable of the shell leaves an empty value. That must not switch anything off.
Status has_content(std::string_view name, std::string_view value) {
  const auto wrong = [name](const std::string& why) { return invalid(std::string(name) + why); };
  if (value.empty()) {
    return name == "REGARD_TRUSTED_KEYS"
               ? wrong(" is empty, and without keys everything is trusted; name the keys, or unset it")
               : Status();
  }
  if (value.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return wrong("=" + in_quotes(value) + " is blank; give it a value, or unset it");
  return {};
}

/// A topic that does not exist would never print anything.
Status known_topics(const Settings::List& topics) {
  static constexpr std::string_view known[] = {
#define REGARD_TOPIC(topic) #topic,
      REGARD_LOG_TOPICS(REGARD_TOPIC)
#undef REGARD_TOPIC
          "all"};
  for (const std::string_view topic : topics.items()) {
    if (std::ranges::find(known, topic) != std::end(known)) continue;
    return invalid("REGARD_LOG has the unknown topic " + in_quotes(topic) + suggestion(topic, known));
  }
  return {};
}

std::string text_of(bool value) {
  return value ? "on" : "off";
}
std::string text_of(const std::string& value) {
  return value;
}
template <char separator>
std::string text_of(const ListOf<separator>& value) {
  return value.text;
}
std::string text_of(const Url& value) {
  return without_secrets(value.text);
}
std::string text_of(const SaveCalls& value) {
  return value.text;
}
std::string text_of(std::int64_t value) {
  return std::to_string(value);
}

}  // namespace

std::span<const SettingInfo> setting_table() {
  return process_lifetime<[] {
    const std::vector<std::string>& texts = process_lifetime<[] { return setting_values(Settings{}); }>();
    std::vector<SettingInfo> rows;
#define REGARD_ROW(member, type, env, default_value, doc) \
  rows.push_back({env, #type, texts[rows.size()], doc});
    REGARD_SETTINGS(REGARD_ROW)
#undef REGARD_ROW
    return rows;
  }>();
}

std::vector<std::string> setting_values(const Settings& current) {
  std::vector<std::string> values;
#define REGARD_VALUE(member, type, env, default_value, doc) values.push_back(text_of(current.member));
  REGARD_SETTINGS(REGARD_VALUE)
#undef REGARD_VALUE
  return values;
}

std::string settings_markdown() {
  std::string markdown = "| variable | type | default | meaning |\n|---|---|---|---|\n";
  for (const SettingInfo& row : setting_table()) {
    markdown += "| `" + std::string(row.name) + "` | " + lower(row.type) + " | " +
                std::string(row.default_text) + " | " + std::string(row.doc) + " |\n";
  }
  return markdown;
}

Result<Settings> parse_settings(std::span<const std::string> environment,
                                std::vector<std::string>& warnings) {
  static constexpr std::string_view names[] = {
#define REGARD_NAME(member, type, env, default_value, doc) env,
      REGARD_SETTINGS(REGARD_NAME)
#undef REGARD_NAME
  };
  Settings parsed;
  for (const std::string& variable : environment) {
    if (!variable.starts_with(prefix)) continue;
    const std::size_t equals = variable.find('=');
    const std::string_view name = std::string_view(variable).substr(0, equals);
    const std::string_view value =
        equals == std::string::npos ? std::string_view() : std::string_view(variable).substr(equals + 1);
    Status status = has_content(name, value);
    bool known = false;
#define REGARD_READ(member, type, env, default_value, doc)                   \
  if (name == env) {                                                         \
    known = true;                                                            \
    if (status && !value.empty()) status = read(name, value, parsed.member); \
  }
    REGARD_SETTINGS(REGARD_READ)
#undef REGARD_READ
    if (known && !status) return tl::unexpected(status.error());
    if (!known) warnings.push_back("unknown setting " + printable(name) + suggestion(name, names));
  }
  if (Status status = known_topics(parsed.log); !status) return tl::unexpected(status.error());
  if (!parsed.data_dir.empty()) parsed.built_in = false;  // made from the embedded sources
  return parsed;
}

const Result<Settings>& settings() {
  return process_lifetime<[] {
    std::vector<std::string> environment;
    for (const std::string_view variable : variables()) environment.emplace_back(variable);
    std::vector<std::string> warnings;
    Result<Settings> parsed = parse_settings(environment, warnings);
    if (ignores_variables(prefix)) {
      warnings.emplace_back(
          "this program has rights that its user lacks (setuid, setgid or capabilities), so the settings in "
          "its environment are ignored");
    }
    for (const std::string& warning : warnings) warn_once(warning);
    return parsed;
  }>();
}

}  // namespace regard
