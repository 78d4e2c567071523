// URLs: they may contain passwords, which must not appear in messages and reports.
#pragma once

#include <string>
#include <string_view>

namespace regard {

/// The URL, printable, with *** in place of user name and password and of what follows the path. Accepts any
/// text, as invalid URLs are printed too.
std::string without_secrets(std::string_view url);

/// A setting that is a URL.
struct Url {
  Url(const char* given) : text(given) {}  // NOLINT: the default in a table
  bool empty() const { return text.empty(); }

  std::string text;  ///< with its secrets
};

}  // namespace regard
