// Problem and Signature from text. Each word sets one or more fields; a field that two words set differently
// is an error that names both.
#include <algorithm>
#include <array>
#include <vector>

#include "base/nearest.h"
#include "base/text.h"
#include "problem/fields.h"
#include "problem/functions.h"
#include "problem/other_names.h"
#include "problem/values.h"

namespace regard {
namespace {

/// Whether a record has the word.
template <class Record>
bool takes(std::string_view word);

/// Whether a refusal names the word that was probably meant. Words that are tried as suggestions get none
/// themselves: each could lead to another one.
enum class Suggests : bool { no, yes };

template <class Record>
class Reader {
 public:
  explicit Reader(Record& record, Suggests suggests = Suggests::yes) : record_(record), suggests_(suggests) {
    for_each_following_type(record, [&](Field field, DType type) {
      follows_[static_cast<std::size_t>(field)] = type == default_type(field, record.dtype);
    });
  }

  Status read(std::string_view word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return read_bare(word);
    return read_pair(word, word.substr(0, equals), word.substr(equals + 1));
  }

  /// Sets fields that default to the value of another one, and those that are read together.
  Status finish() {
    if (given(Field::dtype)) {
      for_each_following_type(record_, [&](Field field, DType& type) {
        if (!given(field) && follows_[static_cast<std::size_t>(field)])
          type = default_type(field, record_.dtype);
      });
    }
    if (given(Field::d) && !given(Field::dv)) record_.dv = record_.d;
    if (given(Field::dv) && !given(Field::d) && record_.d == 0) record_.d = record_.dv;
    if constexpr (is_problem) {
      static constexpr Problem defaults;
      if (given(Field::mask)) {  // a new mask does not inherit an old window
        if (!given(Field::window_left)) record_.window_left = defaults.window_left;
        if (!given(Field::window_right)) record_.window_right = defaults.window_right;
        if (!given(Field::sink_tokens)) record_.sink_tokens = defaults.sink_tokens;
      }
    }
    return finish_functions();
  }

 private:
  static constexpr bool is_problem = std::is_same_v<Record, Problem>;

  std::string_view& source(Field field) { return source_[static_cast<std::size_t>(field)]; }
  bool given(Field field) { return !source(field).empty(); }

  template <class Value>
  Status set(Field field, Value& member, const Value& value, std::string_view word) {
    if (given(field) && member != value) {
      return invalid(in_quotes(source(field)) + " and " + in_quotes(word) + " disagree about " +
                     std::string(info(field).name) + "; give it once");
    }
    member = value;
    source(field) = word;
    return {};
  }

  /// Functions are read when their tensors and numbers are known.
  Status finish_functions() {
    FunctionTexts texts;
    bool any = false;
    const auto take = [&](Field field, const InternedText& member, std::string& text) {
      any |= given(field);
      text = given(field) ? value_in(source(field)) : member.view();
    };
    take(Field::score, record_.score, texts.score);
    take(Field::keep, record_.keep, texts.keep);
    take(Field::tensors, record_.tensors, texts.tensors);
    take(Field::grads, record_.grads, texts.grads);
    if constexpr (is_problem) {
      any |= given(Field::numbers);
      texts.numbers = record_.numbers;
    }
    if (!any) return {};
    const Numbers numbers = !is_problem             ? Numbers::without_values
                            : given(Field::numbers) ? Numbers::given
                                                    : Numbers::of_problem;
    const Result<FunctionTexts> canonical = regard::canonical(std::move(texts), numbers);
    if (!canonical) return tl::unexpected(canonical.error());
    record_.score = InternedText(canonical->score);
    record_.keep = InternedText(canonical->keep);
    record_.tensors = InternedText(canonical->tensors);
    record_.grads = InternedText(canonical->grads);
    if constexpr (is_problem) record_.numbers = canonical->numbers;
    return {};
  }

  /// What follows "=", without quotes.
  static std::string_view value_in(std::string_view word) {
    word.remove_prefix(word.find('=') + 1);
    const bool quoted =
        word.size() > 1 && (word.front() == '"' || word.front() == '\'') && word.back() == word.front();
    return quoted ? word.substr(1, word.size() - 2) : word;
  }

  /// Parses `text` into the field; fields that the record does not have are unknown words.
  Status set_text(Field requested, std::string_view text, std::string_view word) {
    Status status;
    bool found = false;
    for_each_field(record_, [&](Field field, auto& member) {
      if (field != requested) return;
      found = true;
      using Value = std::remove_reference_t<decltype(member)>;
      if constexpr (std::is_same_v<Value, bool>) {
        status = invalid(in_quotes(word) + ": " + std::string(info(field).name) +
                         " takes no value; write it alone or leave it out");
      } else if constexpr (std::is_same_v<Value, InternedText>) {
        status = set_function(field, word);
      } else {
        Value value = member;
        status = read_value(info(field).name, text, value);
        if (status) {
          status = set(field, member, value, word);
        } else if constexpr (std::is_enum_v<Value>) {
          status = other_value(field, text, std::move(status));
        }
      }
    });
    return found ? status : unknown(word, info(requested).name);
  }

  Status set_function(Field field, std::string_view word) {
    const std::string_view name = info(field).name;
    if (value_in(word).empty()) return needs_value(name, "a text", example_of_text(name));
    if (given(field) && value_in(source(field)) != value_in(word)) {
      return invalid(in_quotes(source(field)) + " and " + in_quotes(word) + " disagree about " +
                     std::string(name) + "; give it once");
    }
    source(field) = word;
    return {};
  }

  /// `refusal`, or one that gives our name for another library's value.
  Status other_value(Field field, std::string_view text, Status refusal) {
    const std::string name = std::string(info(field).name) + "=";
    if (suggests_ == Suggests::no) return refusal;
    const auto other = find_other_name(
        text, [&](std::string_view pair) { return pair.starts_with(name) && takes<Record>(pair); });
    if (!other) return refusal;
    return invalid("unknown " + std::string(info(field).name) + " " + in_quotes(text) + "; did you mean " +
                   in_quotes(std::string_view(other->word).substr(name.size())) + "?");
  }

  Status read_pair(std::string_view word, std::string_view name, std::string_view text) {
    if (name == "mask") return read_mask(word, text);
    if (name == "splits" && text == "auto") text = "0";
    if constexpr (is_problem) {
      for (const Composite& composite : composite_table()) {
        if (name == composite.name) return read_size(composite, text, word);
      }
    }
    for (std::size_t i = 0; i < field_table().size(); ++i) {
      if (name == field_table()[i].name) return set_text(static_cast<Field>(i), text, word);
    }
    return unknown(word, name);
  }

  Status read_size(const Composite& composite, std::string_view text, std::string_view word) {
    std::int64_t value = 0;  // parsed once, so that an error names the word as written
    if (Status status = read_value(composite.name, text, value); !status) return status;
    if (Status status = set_text(composite.first, text, word); !status) return status;
    return set_text(composite.second, text, word);
  }

  Status read_bare(std::string_view word) {
    if (const auto pass = from_word<Pass>(word)) return set(Field::pass, record_.pass, *pass, word);
    if (const auto dtype = from_word<DType>(word)) return set(Field::dtype, record_.dtype, *dtype, word);
    if constexpr (is_problem) {
      for (const Composite& composite : composite_table())
        if (word == composite.name && composite.first != Field::window_left)
          return needs_value(word, "a number", example_of(std::int64_t{}));
    }
    std::optional<Status> status;
    for_each_field(record_, [&](Field field, auto& member) {
      using Value = std::remove_reference_t<decltype(member)>;
      const std::string_view name = info(field).name;
      if constexpr (std::is_same_v<Value, bool>) {
        if (word == name) status = set(field, member, true, word);
      } else if constexpr (std::is_same_v<Value, InternedText>) {
        if (word == name) status = needs_value(word, "a text", example_of_text(name));
      } else if (word == name) {
        status = needs_value(word, std::is_enum_v<Value> ? "a value" : "a number", example_of(member));
      } else if constexpr (std::is_enum_v<Value>) {
        const std::string pair = std::string(name) + "=" + std::string(word);
        if (word != "none" && from_word<Value>(word) && takes<Record>(pair))
          status = invalid("unknown word " + in_quotes(word) + "; did you mean " + in_quotes(pair) + "?");
      }
    });
    return status ? *status : unknown(word, word);
  }

  Status read_mask(std::string_view word, std::string_view text) {
    if constexpr (is_problem) {
      constexpr std::string_view window = "window:";
      if (text == regard::word(Mask::window) || text == regard::word(Mask::window_top_left))
        return needs_two_numbers(word);
      if (text.starts_with(window)) return read_window(word, text.substr(window.size()));
    }
    return set_text(Field::mask, text, word);
  }

  Status needs_two_numbers(std::string_view window) {
    return invalid(in_quotes(window) +
                   " needs two numbers, left and right: mask=window:L,R[,top_left][,sink=N]");
  }

  Status read_window(std::string_view word, std::string_view text) {
    constexpr std::ptrdiff_t most_commas =
        16;  // far more than are accepted, so that a text of megabytes is not split
    if (std::ranges::count(text, ',') > most_commas) {
      return invalid(in_quotes(word) +
                     " has too many parts; a window is mask=window:L,R[,top_left][,sink=N]");
    }
    const std::vector<std::string_view> parts = split(text, ",");
    std::int64_t left = 0, right = 0, sink = 0;
    Mask mask = Mask::window;
    bool has_sink = false;
    if (parts.size() < 2) return needs_two_numbers(word);
    if (Status status = read_value("window left", parts[0], left); !status) return status;
    if (Status status = read_value("window right", parts[1], right); !status) return status;
    for (std::size_t i = 2; i < parts.size(); ++i) {
      if (parts[i] == "top_left" && mask == Mask::window) {
        mask = Mask::window_top_left;
      } else if (parts[i].starts_with("sink=") && !has_sink) {
        has_sink = true;
        if (Status status = read_value("sink", parts[i].substr(5), sink); !status) return status;
      } else {
        return invalid(in_quotes(parts[i]) + " in " + in_quotes(word) +
                       " is not understood; a window is mask=window:L,R[,top_left][,sink=N]");
      }
    }
    if (Status status = set(Field::mask, record_.mask, mask, word); !status) return status;
    if (Status status = set(Field::window_left, record_.window_left, left, word); !status) return status;
    if (Status status = set(Field::window_right, record_.window_right, right, word); !status) return status;
    return set(Field::sink_tokens, record_.sink_tokens, sink, word);
  }

  Status unknown(std::string_view word, std::string_view name) {
    const std::string kind = is_problem ? "word" : "signature word";
    if (name.empty())
      return invalid(in_quotes(word) + " has no name before its '='; write for example s=512");
    const std::string refusal = "unknown " + kind + " " + in_quotes(word);
    if (suggests_ == Suggests::no) return invalid(refusal);
    if (const std::string why = why_no_word(name); !why.empty()) return invalid(refusal + "; " + why);
    if (const auto other = find_other_name(word, takes<Record>)) {
      const std::string known = in_quotes(other->word);
      if (other->denied)
        return invalid(refusal + "; leave it out, as " + known + " is off unless it is written");
      return invalid(refusal + "; did you mean " + known + (other->note.empty() ? "" : ", " + other->note) +
                     "?");
    }
    std::vector<std::string_view> candidates;
    for_each_field(record_, [&](Field field, const auto&) { candidates.push_back(info(field).name); });
    if constexpr (is_problem) {
      for (const Composite& composite : composite_table())
        if (composite.first != Field::window_left) candidates.push_back(composite.name);
    }
    if (word == name) {
      for (const WordInfo& row : words_of<Pass>()) candidates.push_back(row.word);
      for (const WordInfo& row : words_of<DType>()) candidates.push_back(row.word);
    }
    return invalid(refusal + suggestion(name, candidates));
  }

  Record& record_;
  Suggests suggests_;
  std::array<bool, static_cast<std::size_t>(Field::count)> follows_{};
  std::array<std::string_view, static_cast<std::size_t>(Field::count)> source_{};
};

/// Where a word ends: at a space, or after the quotes that follow its first "=".
std::size_t end_of_word(std::string_view text, std::size_t begin, std::string_view spaces) {
  const std::size_t space = std::min(text.find_first_of(spaces, begin), text.size());
  const std::size_t equals = text.substr(begin, space - begin).find('=');
  if (equals == std::string_view::npos || begin + equals + 1 >= text.size()) return space;
  const char quote = text[begin + equals + 1];
  if (quote != '"' && quote != '\'') return space;
  const std::size_t closing = text.find(quote, begin + equals + 2);
  return closing == std::string_view::npos ? space : closing + 1;
}

template <class Record>
bool takes(std::string_view word) {
  Record record;
  return Reader<Record>(record, Suggests::no).read(word).has_value();
}

template <class Record>
Result<Record> parse_record(std::string_view text, std::string_view example) {
  Record record;
  Reader<Record> reader(record);
  bool empty = true;
  constexpr std::string_view spaces = " \t\r\n";
  // Word by word, so that a text of any length takes no memory.
  for (std::size_t at = 0; (at = text.find_first_not_of(spaces, at)) != std::string_view::npos;) {
    const std::size_t end = end_of_word(text, at, spaces);
    empty = false;
    if (Status status = reader.read(text.substr(at, end - at)); !status)
      return tl::unexpected(status.error());
    at = end;
  }
  if (empty) return invalid("the text is empty; write for example '" + std::string(example) + "'");
  if (Status status = reader.finish(); !status) return tl::unexpected(status.error());
  return record;
}

}  // namespace

Result<Problem> parse(std::string_view text) {
  return parse_record<Problem>(text, "fwd bf16 b=2 h=16 s=1024 d=128 mask=causal");
}

Result<Signature> parse_signature(std::string_view text) {
  return parse_record<Signature>(text, "fwd bf16 d=128 mask=causal");
}

Status apply(Problem& problem, std::string_view word) {
  Problem changed = problem;
  Reader<Problem> reader(changed);
  if (Status status = reader.read(word); !status) return status;
  if (Status status = reader.finish(); !status) return status;
  problem = changed;
  return {};
}

}  // namespace regard
