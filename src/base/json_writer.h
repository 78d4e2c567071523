// JSON as it is written. Own code, as the library for it allocates in functions that must not throw: where
// memory runs out, it would end the host program.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace regard {

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

  /// Its name and a value, or what a callable writes as its value.
  template <class Value>
  void member(std::string_view name, const Value& written) {
    value(name);
    text_ += ':';
    value(written);
  }

  void value(bool flag);
  void value(std::int64_t number);
  /// JSON has no infinity: that is null.
  void value(double number);
  /// What is no UTF-8, as a path need not be, has U+FFFD in its place.
  void value(std::string_view text);
  void null() { raw("null"); }
  /// JSON that is known to be right.
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
