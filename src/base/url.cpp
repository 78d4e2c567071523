#include "base/url.h"

#include "base/printable.h"

namespace regard {

std::string without_secrets(std::string_view url) {
  constexpr std::string_view secret = "***", after_scheme = "://";
  std::string shown;
  // The last one: a password that somebody did not escape may have any character itself.
  if (const std::size_t at = url.rfind('@'); at != std::string_view::npos) {
    if (const std::size_t end = url.find(after_scheme); end < at)
      shown = url.substr(0, end + after_scheme.size());
    shown += secret;
    url.remove_prefix(at);
  }
  const std::size_t path_end = url.find_first_of("?#");
  shown += url.substr(0, path_end);
  if (path_end != std::string_view::npos) shown.append(1, url[path_end]).append(secret);
  return printable(shown);
}

}  // namespace regard
