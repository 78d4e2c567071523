// URLs, which may have passwords in them, while sentences and reports may be sent to anybody.
#pragma once

#include <string>
#include <string_view>

namespace regard {

/// The URL, printable, with *** in place of a name and a password and of what follows the path. Any text will
/// do, as those that are no URLs are printed too.
std::string without_secrets(std::string_view url);

/// A setting that is one.
struct Url {
  Url(const char* given) : text(given) {}  // NOLINT: the default in a table
  bool empty() const { return text.empty(); }

  std::string text;  ///< with its secrets
};

}  // namespace regard
