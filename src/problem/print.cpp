// Problem and Signature as canonical text: pass, dtype, sizes, then the other fields in list order where they
// differ from their default.
#include "problem/fields.h"
#include "problem/values.h"

namespace regard {
namespace {

void append(std::string& line, std::string_view word) {
  if (!line.empty()) line += ' ';
  line += word;
}
void append(std::string& line, std::string_view name, std::string_view value) {
  append(line, name);
  line += '=';
  line += value;
}
void append(std::string& line, std::string_view name, std::int64_t value) {
  append(line, name, value_text(value));
}

bool is_window(Mask mask) {
  return mask == Mask::window || mask == Mask::window_top_left;
}

std::string window_text(const Problem& p) {
  std::string text = "window:" + value_text(p.window_left) + "," + value_text(p.window_right);
  if (p.mask == Mask::window_top_left) text += ",top_left";
  if (p.sink_tokens != 0) text += ",sink=" + value_text(p.sink_tokens);
  return text;
}

/// `pair` where both are the same, else each by its own name.
void append_pair(std::string& line, std::string_view pair, std::string_view first_name, std::int64_t first,
                 std::string_view second_name, std::int64_t second) {
  if (first == second) return append(line, pair, first);
  append(line, first_name, first);
  append(line, second_name, second);
}

/// Fields that are not printed as name=value.
bool printed_apart(const Problem& p, Field field) {
  switch (field) {
    case Field::pass:
    case Field::dtype:
    case Field::b:
    case Field::hq:
    case Field::hk:
    case Field::sq:
    case Field::sk:
    case Field::d:
    case Field::dv:
      return true;
    case Field::mask:
    case Field::window_left:
    case Field::window_right:
    case Field::sink_tokens:
      return is_window(p.mask);
    default:
      return false;
  }
}
bool printed_apart(const Signature&, Field field) {
  switch (field) {
    case Field::pass:
    case Field::dtype:
    case Field::d:
    case Field::dv:
      return true;
    default:
      return false;
  }
}

/// A record whose fields all have the default whose word is omitted; other types follow that of Q.
template <class Record>
Record defaults_beside(const Record& record) {
  Record defaults;
  for_each_following_type(defaults,
                          [&](Field field, DType& type) { type = default_type(field, record.dtype); });
  return defaults;
}

template <class Record>
void append_rest(std::string& line, const Record& record) {
  const Record defaults = defaults_beside(record);
  for_each_field(record, defaults, [&](Field field, const auto& value, const auto& default_value) {
    if (printed_apart(record, field) || value == default_value) return;
    if constexpr (std::is_same_v<decltype(value), const bool&>) {
      append(line, info(field).name);
    } else {
      append(line, info(field).name, value_text(value));
    }
  });
}

}  // namespace

std::string print(const Problem& p) {
  std::string line;
  append(line, word(p.pass));
  append(line, word(p.dtype));
  append(line, "b", p.b);
  append_pair(line, "h", "hq", p.hq, "hk", p.hk);
  append_pair(line, "s", "sq", p.sq, "sk", p.sk);
  append_pair(line, "d", "d", p.d, "dv", p.dv);
  if (is_window(p.mask)) append(line, "mask", window_text(p));
  append_rest(line, p);
  return line;
}

std::string print(const Signature& s) {
  std::string line;
  append(line, word(s.pass));
  append(line, word(s.dtype));
  if (s.d != 0 || s.dv != 0) append_pair(line, "d", "d", s.d, "dv", s.dv);  // one kernel can serve all sizes
  append_rest(line, s);
  return line;
}

}  // namespace regard
