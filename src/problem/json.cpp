// Problem as JSON: every field by its name, strict on the way in.
#include <array>
#include <vector>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/nearest.h"
#include "problem/fields.h"
#include "problem/values.h"

namespace regard {
namespace {

using Kind = JsonEvent::Kind;

/// All fields with all digits take a hundredth of a hundredth of this.
constexpr std::size_t longest_json = 1 << 20;
constexpr const char* example = "it is one object, for example {\"pass\": \"fwd\"}";

template <class Value>
void write(JsonWriter& json, std::string_view name, const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    json.member(name, value_text(value));
  } else if constexpr (std::is_same_v<Value, OptionalScale>) {
    value ? json.member(name, *value) : json.member(name, [&] { json.null(); });
  } else {
    json.member(name, value);
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

Status wrong_type(const JsonEvent& value, std::string_view wanted) {
  return invalid("\"" + std::string(value.key) + "\": " + shown(value) + " is not " + std::string(wanted));
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
  value = json.real;
  return {};
}
Status read(const JsonEvent& json, OptionalScale& value) {
  value.reset();
  if (json.kind == Kind::null) return {};
  return read(json, value.emplace());
}
template <class Enum>
  requires std::is_enum_v<Enum>
Status read(const JsonEvent& json, Enum& value) {
  if (json.kind != Kind::text) return wrong_type(json, "a word in quotes");
  return read_value(json.key, json.text, value);
}

Status unknown_key(const JsonEvent& json) {
  std::vector<std::string_view> names;
  for (const FieldInfo& field : field_table()) names.push_back(field.name);
  return invalid("unknown key \"" + std::string(json.key) + "\" in a problem's JSON" +
                 suggestion(json.key, names));
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
      status =
          given
              ? invalid("\"" + std::string(json.key) + "\" stands twice in the problem's JSON; give it once")
              : read(json, member);
      given = true;
    });
    return known ? status : unknown_key(json);
  }

  /// With the same defaults as in text, where a field follows another.
  Problem finish() {
    if (!given(Field::out)) problem_.out = default_out(problem_.dtype);
    if (!given(Field::dv)) problem_.dv = problem_.d;
    return problem_;
  }

 private:
  bool given(Field field) const { return given_[static_cast<std::size_t>(field)]; }

  Problem problem_;
  std::array<bool, static_cast<std::size_t>(Field::count)> given_{};
};

}  // namespace

std::string to_json(const Problem& problem) {
  JsonWriter json;
  json.object([&] {
    for_each_field(problem, [&](Field field, const auto& value) { write(json, info(field).name, value); });
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
  bool well_formed = false;  // up to the value that was refused
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
