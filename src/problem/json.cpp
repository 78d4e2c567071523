// Problem as JSON: every field by its name, strict on the way in.
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/nearest.h"
#include "problem/fields.h"
#include "problem/other_names.h"
#include "problem/values.h"

namespace regard {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json json_value(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return value_text(value);
  } else if constexpr (std::is_same_v<Value, OptionalScale>) {
    return value ? Json(*value) : Json(nullptr);
  } else {
    return value;
  }
}

/// A list or an object, which may be nested deeper than a stack, is named, not shown.
Status wrong_type(std::string_view name, const Json& json, std::string_view wanted) {
  const std::string shown = json.is_array() ? "a list" : json.is_object() ? "an object" : json.dump();
  return invalid("\"" + std::string(name) + "\": " + shown + " is not " + std::string(wanted));
}

Status read_json(std::string_view name, const Json& json, bool& value) {
  if (!json.is_boolean()) return wrong_type(name, json, "true or false");
  value = json.get<bool>();
  return {};
}
Status read_json(std::string_view name, const Json& json, std::int64_t& value) {
  const bool too_large = json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  if (!json.is_number_integer() || too_large) return wrong_type(name, json, "a whole number below 2^63");
  value = json.get<std::int64_t>();
  return {};
}
Status read_json(std::string_view name, const Json& json, double& value) {
  if (!json.is_number()) return wrong_type(name, json, "a number");
  value = without_sign_of_zero(json.get<double>());
  return {};
}
Status read_json(std::string_view name, const Json& json, OptionalScale& value) {
  value.reset();
  if (json.is_null()) return {};
  return read_json(name, json, value.emplace());
}
template <class Enum>
  requires std::is_enum_v<Enum>
Status read_json(std::string_view name, const Json& json, Enum& value) {
  if (!json.is_string()) return wrong_type(name, json, "a word in quotes");
  return read_value(name, json.get_ref<const std::string&>(), value);
}

/// What a word of problem text says, as JSON: "mask": "causal".
std::string json_of_word(std::string_view word) {
  const Problem defaults, changed = parse(word).value_or(defaults);
  std::string text;
  for_each_field(defaults, changed, [&](Field field, const auto& before, const auto& after) {
    if (before == after) return;
    text +=
        (text.empty() ? "\"" : ", \"") + std::string(info(field).name) + "\": " + json_value(after).dump();
  });
  return text;
}

/// The word of problem text that a key with its value stands for, if it is the name of two fields, or another
/// library's.
std::string suggestion_for(const std::string& key, const Json& value,
                           std::span<const std::string_view> candidates) {
  const auto takes = [](std::string_view word) { return parse(word).has_value(); };
  const bool says_much = value.is_number() || value.is_boolean();
  const std::string number = says_much ? "=" + value.dump() : "";
  for (const Composite& composite : composite_table()) {
    if (key != composite.name || composite.first == Field::window_left) continue;
    const std::string json = json_of_word(key + number);
    return "; did you mean " + (json.empty() ? json_of_word(key + "=512") : json) + "?";
  }
  if (const auto other = find_other_name(key + number, takes)) {
    if (const std::string json = json_of_word(other->word); !json.empty())
      return "; did you mean " + json + "?";
  }
  return suggestion(key, candidates);
}

/// Parses one flat object; the sentence says where the text goes wrong or which key stands there twice.
Result<Json> parse_object(std::string_view text) {
  std::set<std::string> keys;
  std::string twice;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  try {
    Json object = Json::parse(text, watch);
    if (!object.is_object())
      return invalid("a problem's JSON is one object, for example {\"pass\": \"fwd\"}");
    if (!twice.empty()) return invalid("\"" + twice + "\" stands twice in the problem's JSON; give it once");
    return object;
  } catch (const Json::parse_error& error) {
    return invalid("the problem's JSON is not valid at byte " + std::to_string(error.byte) +
                   "; it is one object, for example {\"pass\": \"fwd\"}");
  } catch (const Json::out_of_range&) {
    return invalid("the problem's JSON has a number that no field can hold; numbers stay below 2^63");
  }
}

}  // namespace

std::string to_json(const Problem& problem) {
  Json object = Json::object();
  for_each_field(problem, [&](Field field, const auto& value) {
    object[std::string(info(field).name)] = json_value(value);
  });
  return object.dump();
}

Result<Problem> problem_from_json(std::string_view text) {
  const Result<Json> object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  Problem problem;
  Status status;
  std::set<std::string_view> names;
  for_each_field(problem, [&](Field field, auto& value) {
    const std::string_view name = info(field).name;
    names.insert(name);
    const auto found = object->find(std::string(name));
    if (found != object->end() && status) status = read_json(name, *found, value);
  });
  for (const auto& [key, value] : object->items()) {
    if (names.count(key) != 0 || !status) continue;
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    status =
        invalid("unknown key \"" + key + "\" in a problem's JSON" + suggestion_for(key, value, candidates));
  }
  if (!status) return tl::unexpected(status.error());
  // The same defaults as in text, where a field follows another.
  if (!object->contains("out")) problem.out = default_out(problem.dtype);
  if (!object->contains("dv")) problem.dv = problem.d;
  return problem;
}

}  // namespace regard
