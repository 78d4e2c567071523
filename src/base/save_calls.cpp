#include "base/save_calls.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/nearest.h"
#include "base/text.h"

namespace regard {
namespace {

constexpr std::string_view words[] = {"nan", "error", "mismatch", "first", "every"};

Status read(std::string_view option, std::string_view digits, std::int64_t& out) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (error == std::errc{} && end == digits.data() + digits.size() && out > 0) return {};
  return invalid(" has " + in_quotes(digits) + " for " + std::string(option) +
                 "; it takes a whole number of 1 or more");
}

Status read_when(std::string_view text, SaveCalls& out) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const auto* const found = std::ranges::find(words, name);
  if (found == std::end(words))
    return invalid(" has the unknown when=" + in_quotes(name) + suggestion(name, words));
  out.when = static_cast<SaveCalls::When>(found - words);
  const bool counts = out.when == SaveCalls::When::first || out.when == SaveCalls::When::every;
  const std::string given(name);
  if (!counts) return colon == text.size() ? Status() : invalid(": when=" + given + " takes no number");
  if (colon == text.size()) return invalid(": when=" + given + " needs a number, such as " + given + ":10");
  return read("when=" + given, text.substr(colon + 1), out.number);
}

}  // namespace

std::string_view word(SaveCalls::When when) {
  return words[static_cast<std::size_t>(when)];
}

Result<SaveCalls> parse_save_calls(std::string_view text) {
  static constexpr std::string_view options[] = {"when", "calls", "bytes"};
  SaveCalls parsed("");
  parsed.text = text;
  const std::vector<std::string_view> parts = split(text, ",");
  parsed.folder = parts.empty() ? "" : parts.front();
  if (parsed.folder.empty()) return invalid(" names no folder; put it first, as in FOLDER,when=nan");
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = std::min(parts[i].find('='), parts[i].size());
    const std::string_view name = parts[i].substr(0, equals);
    const std::string_view value = parts[i].substr(std::min(equals + 1, parts[i].size()));
    Status status;
    if (name == "when") {
      status = read_when(value, parsed);
    } else if (name == "calls") {
      status = read(name, value, parsed.calls);
    } else if (name == "bytes") {
      status = read(name, value, parsed.bytes);
    } else {
      status = invalid(" has the unknown option " + in_quotes(name) + suggestion(name, options));
    }
    if (!status) return tl::unexpected(status.error());
  }
  return parsed;
}

}  // namespace regard
