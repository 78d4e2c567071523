// Reading and writing JSON.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace regard {

// Read value by value, in time and memory linear in the text, and to a limited depth, as the stack is
// limited.

/// A value, or the beginning or end of a list or an object.
struct JsonEvent {
  enum class Kind : std::uint8_t { null, flag, integer, real, text, list, object, end };
  Kind kind = Kind::null;
  int depth = 0;              ///< lists and objects around it
  std::string_view key = {};  ///< its name in the object around it
  bool flag = false;
  std::int64_t integer = 0;    ///< only for integers below 2^63; larger ones are real
  double real = 0;             ///< also for integers
  std::string_view text = {};  ///< the value of a string; the digits of a number, printed anew for an integer
};

/// Deeper ones are refused: Regard neither writes nor takes anything nested like that, and readers elsewhere
/// need stack for it.
inline constexpr int most_json_depth = 64;

/// Passes each value of `text` to `receive`; an error from it ends the reading and is returned. Any other
/// error is a sentence that begins with `what`.
Status read_json(std::string_view text, std::string_view what,
                 const std::function<Status(const JsonEvent&)>& receive);

// Implemented here, as the JSON library allocates in functions that must not throw: it would end the host
// program where memory runs out.

/// Appends JSON to its text, value by value:
///   JsonWriter json;
///   json.object([&] { json.member("registers", 32); json.member("stages", [&] { json.list([&] { ... }); });
///   });
class JsonWriter {
 public:
  template <class Body>
  void object(Body&& body) {
    enclose('{', std::forward<Body>(body), '}');
  }
  template <class Body>
  void list(Body&& body) {
    enclose('[', std::forward<Body>(body), ']');
  }

  /// A name and a value, or what a callable writes as the value.
  template <class Value>
  void member(std::string_view name, const Value& written) {
    value(name);
    text_ += ':';
    value(written);
  }

  void value(bool flag);
  void value(std::int64_t number);
  /// JSON has no infinity: null is written instead.
  void value(double number);
  /// Bytes that are not UTF-8, as in some paths, are replaced by U+FFFD.
  void value(std::string_view text);
  void null() { raw("null"); }
  /// JSON that is known to be valid.
  void raw(std::string_view json);

  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  void value(Integer number) {
    value(static_cast<std::int64_t>(number));
  }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(const char* text) { value(std::string_view(text)); }
  template <std::invocable Body>
  void value(const Body& body) {
    body();
  }
  template <class List>
    requires requires(const List& all) { all.begin() != all.end(); }
  void value(const List& all) {
    list([&] {
      for (const auto& one : all) value(one);
    });
  }

  std::string take() { return std::move(text_); }

 private:
  void separate();
  template <class Body>
  void enclose(char first, Body&& body, char last) {
    separate();
    text_ += first;
    std::forward<Body>(body)();
    text_ += last;
  }

  std::string text_;
};

}  // namespace regard
