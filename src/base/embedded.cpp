#include "base/embedded.h"

#include "base/files.h"
#include "base/settings.h"
#include "base/text.h"

namespace regard {
namespace {
// Ten times the largest of them.
constexpr std::uint64_t longest_data_file = 1 << 20;
}  // namespace

Result<std::string> data_file(std::string_view path) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  if (!current->data_dir.empty()) {
    const std::string full = current->data_dir + "/" + std::string(path);
    Result<std::string> text = read_file(full, longest_data_file, Links::followed);
    if (text) return text;
    return fail(text.error().kind, "cannot read " + in_quotes(full) +
                                       " (the folder is REGARD_DATA_DIR): " + text.error().message);
  }
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == path) return std::string(file.text);
  }
  return invalid("the library has no file '" + std::string(path) + "'");
}

}  // namespace regard
