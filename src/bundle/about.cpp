#include "bundle/about.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"
#include "base/nearest.h"
#include "base/text.h"

namespace regard {
namespace {

#define REGARD_WORD(name, word, doc) word,
constexpr std::string_view answers[] = {REGARD_UNDECLARED(REGARD_WORD)};
#undef REGARD_WORD

}  // namespace

std::string_view word(Undeclared undeclared) {
  return answers[static_cast<std::size_t>(undeclared)];
}

namespace bundle {
namespace {

using Member = std::pair<std::string_view, std::string BundleAbout::*>;
constexpr Member members[] = {{"title", &BundleAbout::title},
                              {"version", &BundleAbout::version},
                              {"undeclared", &BundleAbout::undeclared},
                              {"tuning", &BundleAbout::tuning}};

/// A bundle without records does not mention them, so that an earlier Regard reads it.
bool can_be_absent(const Member& member) {
  return member.second == &BundleAbout::tuning;
}

Status check(const BundleAbout& about) {
  if (std::ranges::find(answers, about.undeclared) != std::end(answers)) return {};
  return invalid("its description says undeclared = " + in_quotes(about.undeclared) +
                 suggestion(about.undeclared, answers));
}

Status unknown(std::string_view name) {
  std::array<std::string_view, std::size(members)> names;
  std::ranges::transform(members, names.begin(), &Member::first);
  return invalid("its description has the unknown member " + in_quotes(name) + suggestion(name, names));
}

}  // namespace

Result<std::string> print(const BundleAbout& about) {
  if (const Status right = check(about); !right) return tl::unexpected(right.error());
  JsonWriter json;
  json.object([&] {
    for (const Member& member : members)
      if (!can_be_absent(member) || !(about.*member.second).empty())
        json.member(member.first, about.*member.second);
  });
  return json.take();
}

Result<BundleAbout> parse_about(std::string_view json) {
  BundleAbout about;
  std::array<bool, std::size(members)> given{};
  const Status read = read_json(json, "its description", [&](const JsonEvent& event) -> Status {
    const bool outermost = event.depth == 0;
    if (outermost && event.kind != JsonEvent::Kind::object && event.kind != JsonEvent::Kind::end)
      return invalid("its description is not a JSON object");
    if (outermost) return {};
    const Member* const member = std::ranges::find(members, event.key, &Member::first);
    if (member == std::end(members)) return unknown(event.key);
    if (event.kind != JsonEvent::Kind::text)
      return invalid("its description has a " + in_quotes(event.key) + " that is not a text");
    if (std::exchange(given[static_cast<std::size_t>(member - members)], true))
      return invalid("its description has " + in_quotes(event.key) + " twice");
    about.*member->second = event.text;
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!given[i] && !can_be_absent(members[i]))
      return invalid("its description has no " + in_quotes(members[i].first));
  return check(about).map([&] { return std::move(about); });
}

}  // namespace bundle
}  // namespace regard
