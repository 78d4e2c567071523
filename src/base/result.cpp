#include "base/result.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace regard {
namespace {
constexpr int scarce[] = {ENOMEM, EMFILE, ENFILE, EAGAIN, ENOSPC, EDQUOT, EFBIG, EINTR, EIO};
}

bool is_scarce(int error) {
  return std::ranges::find(scarce, error) != std::end(scarce);
}

bool says_scarce(std::string_view text) {
  // Programs that Regard starts speak English; the loader uses this process's locale.
  constexpr std::string_view english[] = {
      "Cannot allocate memory",  "Too many open files", "Resource temporarily unavailable",
      "No space left on device", "Disk quota exceeded", "out of memory"};
  const auto said = [&](std::string_view words) { return text.find(words) != std::string_view::npos; };
  return std::ranges::any_of(english, said) ||
         std::ranges::any_of(scarce, [&](int error) { return said(std::strerror(error)); });
}

}  // namespace regard
