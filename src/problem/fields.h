// Iterates over the field list of problem.h, so that text, JSON, hash and docs are each written once for all
// fields.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "problem/problem.h"

namespace regard {

/// A field's position in REGARD_PROBLEM_FIELDS.
enum class Field : std::uint8_t {
#define REGARD_FIELD(category, type, name, default_value, doc) name,
  REGARD_PROBLEM_FIELDS(REGARD_FIELD)
#undef REGARD_FIELD
      count
};

enum class Category : std::uint8_t { SIGNATURE, PRESENCE, SHAPE };

struct FieldInfo {
  std::string_view name;
  Category category;
  std::string_view doc;
};
/// In list order, one row per Field.
std::span<const FieldInfo> field_table();
inline const FieldInfo& info(Field field) {
  return field_table()[static_cast<std::size_t>(field)];
}

/// What a field that is a type is where it is not given: it follows the type of Q.
DType default_type(Field, DType of_q);

/// A word that sets two fields; the mask's window, which sets four, is parsed separately and only documented
/// here.
struct Composite {
  std::string_view name, word, doc;
  Field first, second;
};
std::span<const Composite> composite_table();

/// Calls visit(Field, member...) for every member that the records have, in list order; with several records
/// of one type, their members are passed together.
template <class Visitor, class... Problems>
void for_each_problem_field(Visitor&& visit, Problems&... problems) {
#define REGARD_VISIT(category, type, name, default_value, doc) visit(Field::name, problems.name...);
  REGARD_PROBLEM_FIELDS(REGARD_VISIT)
#undef REGARD_VISIT
}
template <class Visitor, class... Signatures>
void for_each_signature_field(Visitor&& visit, Signatures&... signatures) {
#define REGARD_VISIT_SIGNATURE(name) visit(Field::name, signatures.name...);
#define REGARD_VISIT_PRESENCE(name) visit(Field::name, signatures.name...);
#define REGARD_VISIT_SHAPE(name)
#define REGARD_VISIT(category, type, name, default_value, doc) REGARD_VISIT_##category(name)
  REGARD_PROBLEM_FIELDS(REGARD_VISIT)
#undef REGARD_VISIT
#undef REGARD_VISIT_SIGNATURE
#undef REGARD_VISIT_PRESENCE
#undef REGARD_VISIT_SHAPE
}

template <class Record, class Visitor>
void for_each_field(Record& record, Visitor&& visit) {
  if constexpr (std::is_same_v<std::remove_const_t<Record>, Problem>) {
    for_each_problem_field(visit, record);
  } else {
    for_each_signature_field(visit, record);
  }
}
template <class Record, class Visitor>
void for_each_field(const Record& a, const Record& b, Visitor&& visit) {
  if constexpr (std::is_same_v<Record, Problem>) {
    for_each_problem_field(visit, a, b);
  } else {
    for_each_signature_field(visit, a, b);
  }
}

/// Calls visit(Field, member) for every type that follows that of Q.
template <class Record, class Visitor>
void for_each_following_type(Record& record, Visitor&& visit) {
  for_each_field(record, [&](Field field, auto& member) {
    if constexpr (std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(member)>>, DType>)
      if (field != Field::dtype) visit(field, member);
  });
}

}  // namespace regard
