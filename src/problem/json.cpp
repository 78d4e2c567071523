// A Problem as JSON: every field by its name, parsed strictly.
#include <array>
#include <vector>

#include "base/json.h"
#include "base/nearest.h"
#include "problem/fields.h"
#include "problem/functions.h"
#include "problem/other_names.h"
#include "problem/values.h"

namespace regard {
namespace {

using Kind = JsonEvent::Kind;

/// All fields with all digits take a ten-thousandth of this.
constexpr std::size_t longest_json = 1 << 20;
constexpr const char* example = "it is one object, for example {\"pass\": \"fwd\"}";

template <class Value>
void write(JsonWriter& json, const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    json.value(value_text(value));
  } else if constexpr (std::is_same_v<Value, OptionalScale>) {
    value ? json.value(*value) : json.null();
  } else if constexpr (std::is_same_v<Value, InternedText> || std::is_same_v<Value, FunctionNumbers>) {
    json.value(value_text(value));
  } else {
    json.value(value);
  }
}

std::string shown(const JsonEvent& value) {
  switch (value.kind) {
    case Kind::list:
      return "a list";
    case Kind::object:
      return "an object";
    case Kind::null:
      return "null";
    case Kind::flag:
      return value.flag ? "true" : "false";
    case Kind::text: {
      JsonWriter quoted;
      quoted.value(value.text);
      return quoted.take();
    }
    default:
      return std::string(value.text);
  }
}

Status wrong_type(const JsonEvent& value, std::string_view expected) {
  return invalid("\"" + std::string(value.key) + "\": " + shown(value) + " is not " + std::string(expected));
}

Status read(const JsonEvent& json, bool& value) {
  if (json.kind != Kind::flag) return wrong_type(json, "true or false");
  value = json.flag;
  return {};
}
Status read(const JsonEvent& json, std::int64_t& value) {
  if (json.kind != Kind::integer) return wrong_type(json, "a whole number below 2^63");
  value = json.integer;
  return {};
}
Status read(const JsonEvent& json, double& value) {
  if (json.kind != Kind::integer && json.kind != Kind::real) return wrong_type(json, "a number");
  value = without_sign_of_zero(json.real);
  return {};
}
Status read(const JsonEvent& json, OptionalScale& value) {
  value.reset();
  if (json.kind == Kind::null) return {};
  return read(json, value.emplace());
}
Status read(const JsonEvent& json, FunctionNumbers& value) {
  if (json.kind != Kind::text) return wrong_type(json, "a text such as \"n0:64\"");
  if (json.text.empty()) return {};
  return read_value(json.key, json.text, value);
}
template <class Enum>
  requires std::is_enum_v<Enum>
Status read(const JsonEvent& json, Enum& value) {
  if (json.kind != Kind::text) return wrong_type(json, "a word in quotes");
  return read_value(json.key, json.text, value);
}

/// A word of problem text as JSON: "mask": "causal". Of words for a default value, only "mask=none" and the
/// like have one.
std::string json_of_word(std::string_view word) {
  const Problem defaults, changed = parse(word).value_or(defaults);
  std::string text;
  for_each_field(defaults, changed, [&](Field field, const auto& before, const auto& after) {
    const bool said = std::is_enum_v<std::remove_cvref_t<decltype(after)>> &&
                      word.starts_with(std::string(info(field).name) + "=");
    if (before == after && !said) return;
    JsonWriter json;
    write(json, after);
    text += (text.empty() ? "\"" : ", \"") + std::string(info(field).name) + "\": " + json.take();
  });
  return text;
}

/// The word of problem text that a key with its value stands for, if it is the name of two fields, or another
/// library's.
std::string suggestion_for(const JsonEvent& json, std::span<const std::string_view> candidates) {
  const std::string key(json.key);
  const auto takes = [](std::string_view word) { return parse(word).has_value(); };
  const bool says_much = json.kind == Kind::integer || json.kind == Kind::real || json.kind == Kind::flag;
  const std::string number = says_much ? "=" + shown(json) : "";
  for (const Composite& composite : composite_table()) {
    if (key != composite.name || composite.first == Field::window_left) continue;
    const std::string said = json_of_word(key + number);
    return "; did you mean " + (said.empty() ? json_of_word(key + "=512") : said) + "?";
  }
  if (const std::string why = why_no_word(key); !why.empty()) return "; " + why;
  if (const auto other = find_other_name(key + number, takes)) {
    if (other->denied) return "; did you mean \"" + other->word + "\": false?";
    if (const std::string said = json_of_word(other->word); !said.empty())
      return "; did you mean " + said + "?";
  }
  return suggestion(key, candidates);
}

Status unknown_key(const JsonEvent& json) {
  std::vector<std::string_view> names;
  for (const FieldInfo& field : field_table()) names.push_back(field.name);
  return invalid("unknown key \"" + std::string(json.key) + "\" in a problem's JSON" +
                 suggestion_for(json, names));
}

/// Reads the members of one flat object.
class Reader {
 public:
  Status read_member(const JsonEvent& json) {
    Status status;
    bool known = false;
    for_each_field(problem_, [&](Field field, auto& member) {
      if (known || info(field).name != json.key) return;
      known = true;
      bool& given = given_[static_cast<std::size_t>(field)];
      status = given ? invalid("\"" + std::string(json.key) +
                               "\" is given twice in the problem's JSON; give it once")
                     : read_field(json, field, member);
      given = true;
    });
    return known ? status : unknown_key(json);
  }

  /// With the same defaults as in text, where some fields default to another's value.
  Result<Problem> finish() {
    for_each_following_type(problem_, [&](Field field, DType& type) {
      if (!given(field)) type = default_type(field, problem_.dtype);
    });
    if (!given(Field::dv)) problem_.dv = problem_.d;
    if (texts_ == FunctionTexts() && problem_.numbers.count == 0) return problem_;
    texts_.numbers = problem_.numbers;
    const Result<FunctionTexts> canonical = regard::canonical(texts_, Numbers::given);
    if (!canonical) return tl::unexpected(canonical.error());
    problem_.score = InternedText(canonical->score);
    problem_.keep = InternedText(canonical->keep);
    problem_.tensors = InternedText(canonical->tensors);
    problem_.grads = InternedText(canonical->grads);
    problem_.numbers = canonical->numbers;
    return problem_;
  }

 private:
  template <class Value>
  Status read_field(const JsonEvent& json, Field, Value& member) {
    return read(json, member);
  }
  /// Functions are read when their tensors and numbers are known.
  Status read_field(const JsonEvent& json, Field field, InternedText&) {
    if (json.kind != Kind::text) return wrong_type(json, "a text");
    std::string& text = field == Field::score     ? texts_.score
                        : field == Field::keep    ? texts_.keep
                        : field == Field::tensors ? texts_.tensors
                                                  : texts_.grads;
    text = json.text;
    return {};
  }

  bool given(Field field) const { return given_[static_cast<std::size_t>(field)]; }

  Problem problem_;
  FunctionTexts texts_;
  std::array<bool, static_cast<std::size_t>(Field::count)> given_{};
};

}  // namespace

std::string to_json(const Problem& problem) {
  JsonWriter json;
  json.object([&] {
    for_each_field(problem, [&](Field field, const auto& value) {
      json.member(info(field).name, [&] { write(json, value); });
    });
  });
  return json.take();
}

Result<Problem> problem_from_json(std::string_view text) {
  if (text.size() > longest_json) {
    return invalid("the problem's JSON is " + std::to_string(text.size()) +
                   " bytes long, and no problem needs more than " + std::to_string(longest_json) + "; " +
                   example);
  }
  Reader reader;
  bool well_formed = false;  // up to the refused value
  Status status = read_json(text, "the problem's JSON", [&](const JsonEvent& json) -> Status {
    if (json.depth == 0 && json.kind == Kind::end) return {};
    Status taken;
    if (json.depth == 1) taken = reader.read_member(json);
    if (json.depth == 0 && json.kind != Kind::object)
      taken = invalid("a problem's JSON is one object, for example {\"pass\": \"fwd\"}");
    well_formed = !taken;
    return taken;
  });
  if (!status)
    return well_formed ? tl::unexpected(status.error()) : invalid(status.error().message + "; " + example);
  return reader.finish();
}

}  // namespace regard
