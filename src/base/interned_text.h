// A text as a handle that can be copied as bytes; equal texts have equal handles.
#pragma once

#include <string>
#include <string_view>

namespace regard {

/// Texts stay in memory until the process ends, so only texts of which there are few are interned, such as
/// functions without their numbers.
class InternedText {
 public:
  constexpr InternedText() = default;  ///< the empty text
  explicit InternedText(std::string_view text);

  constexpr bool empty() const { return text_ == nullptr; }
  std::string_view view() const { return text_ == nullptr ? std::string_view() : std::string_view(*text_); }
  friend constexpr bool operator==(const InternedText&, const InternedText&) = default;

 private:
  const std::string* text_ = nullptr;
};

}  // namespace regard
