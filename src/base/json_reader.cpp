#include "base/json.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace regard {
namespace {

using Json = nlohmann::json;
using Kind = JsonEvent::Kind;

/// Only the library's values allocate where they must not throw. Its parser makes none for this receiver.
class Receiver final : public nlohmann::json_sax<Json> {
 public:
  Receiver(std::string_view what, const std::function<Status(const JsonEvent&)>& receive)
      : what_(what), receive_(receive) {}

  const Status& status() const { return status_; }

  bool null() override { return give({}); }
  bool boolean(bool value) override { return give({.kind = Kind::flag, .flag = value}); }
  bool number_integer(number_integer_t value) override {
    const std::string text = fmt::to_string(value);
    return give({.kind = Kind::integer, .integer = value, .real = static_cast<double>(value), .text = text});
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= number_unsigned_t{INT64_MAX}) return number_integer(static_cast<number_integer_t>(value));
    return number_float(static_cast<double>(value), fmt::to_string(value));
  }
  /// The number as nlohmann's reader parsed it depends on the host's rounding direction.
  bool number_float(number_float_t value, const string_t& text) override {
    std::from_chars(text.data(), text.data() + text.size(), value);
    return give({.kind = Kind::real, .real = value, .text = text});
  }
  bool string(string_t& value) override { return give({.kind = Kind::text, .text = value}); }
  bool binary(binary_t&) override { return false; }  // does not occur in text
  bool key(string_t& name) override {
    key_.swap(name);
    return true;
  }
  bool start_object(std::size_t) override { return begin(Kind::object); }
  bool start_array(std::size_t) override { return begin(Kind::list); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr int number_out_of_range = 406;
    return refuse(error.id == number_out_of_range
                      ? fmt::format("{} has a number that no field can hold; numbers stay below 2^63", what_)
                      : fmt::format("{} is not valid at byte {}", what_, byte));
  }

 private:
  bool give(JsonEvent event) {
    event.depth = depth_;
    event.key = key_;
    status_ = receive_(event);
    key_.clear();
    return status_.has_value();
  }
  bool begin(Kind kind) {
    if (depth_ == most_json_depth)
      return refuse(fmt::format("{} is nested deeper than {} levels", what_, most_json_depth));
    const bool taken = give({.kind = kind});
    ++depth_;
    return taken;
  }
  bool end() {
    --depth_;
    return give({.kind = Kind::end});
  }
  bool refuse(std::string why) {
    status_ = invalid(std::move(why));
    return false;
  }

  std::string_view what_;
  const std::function<Status(const JsonEvent&)>& receive_;
  Status status_;
  std::string key_;
  int depth_ = 0;
};

}  // namespace

Status read_json(std::string_view text, std::string_view what,
                 const std::function<Status(const JsonEvent&)>& receive) {
  Receiver receiver(what, receive);
  Json::sax_parse(text.begin(), text.end(), &receiver);
  return receiver.status();
}

}  // namespace regard
