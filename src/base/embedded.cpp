#include "base/embedded.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/printable.h"
#include "base/settings.h"

namespace regard {

Result<std::string> data_file(std::string_view path) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  if (!current->data_dir.empty()) {
    const std::string full = current->data_dir + "/" + std::string(path);
    std::ifstream file(full, std::ios::binary);
    if (!file) return invalid("cannot read " + in_quotes(full) + " (the folder is REGARD_DATA_DIR)");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == path) return std::string(file.text);
  }
  return invalid("the library has no file '" + std::string(path) + "'");
}

}  // namespace regard
