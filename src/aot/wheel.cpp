#include "aot/wheel.h"

#include <fmt/format.h>
#include <minizip/zip.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "aot/bundle_output.h"
#include "base/digest.h"
#include "base/result.h"
#include "base/text.h"

namespace regard::aot {
namespace {

/// The name of the package in Python and of the distribution in pip.
std::string package_of(const Manifest& manifest) {
  return "regard_bundle_" + manifest.name_space;
}

std::string version_of(const std::string& bundle_sum) {
  return REGARD_VERSION "+" + bundle_sum.substr(0, 8);
}

/// SHA-256 as a wheel's RECORD has it: base64 for URLs, without padding.
std::string sum_in_record(const std::string& bytes) {
  const Digest digest = sha256(bytes);
  std::vector<unsigned char> text(64);
  const int length = EVP_EncodeBlock(text.data(), digest.bytes.data(), static_cast<int>(digest.bytes.size()));
  std::string sum(text.begin(), text.begin() + length);
  std::ranges::replace(sum, '+', '-');
  std::ranges::replace(sum, '/', '_');
  sum.resize(sum.find_last_not_of('=') + 1);
  return sum;
}

using Files = std::vector<std::pair<std::string, std::string>>;  // names and bytes

Files files_of(const Manifest& manifest, std::string bundle, const std::string& bundle_sum) {
  const std::string package = package_of(manifest), version = version_of(bundle_sum);
  const std::string about = fmt::format("{}-{}.dist-info/", package, version);
  Files files = {
      {package + "/__init__.py",
       fmt::format("\"\"\"Kernels of Regard, built ahead of time. `import regard` finds them.\"\"\"\n\n"
                   "import pathlib\n\nbundle = pathlib.Path(__file__).with_name(\"{}\")\n",
                   bundle_name(manifest))},
      {package + "/" + bundle_name(manifest), std::move(bundle)},
      {about + "METADATA",
       fmt::format("Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
                   "Summary: Kernels of Regard, built ahead of time\nRequires-Dist: regard==" REGARD_VERSION
                   "\n",
                   package, version)},
      {about + "WHEEL", "Wheel-Version: 1.0\nGenerator: regard " REGARD_VERSION
                        "\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
      {about + "entry_points.txt", fmt::format("[regard.bundles]\n{0} = {0}:bundle\n", package)}};
  std::string record;
  for (const auto& [name, bytes] : files)
    record += fmt::format("{},sha256={},{}\n", name, sum_in_record(bytes), bytes.size());
  record += about + "RECORD,,\n";
  files.emplace_back(about + "RECORD", std::move(record));
  return files;
}

/// Stored uncompressed, since a bundle is already compressed, and with a fixed date, so that the bytes are
/// reproducible.
bool add(zipFile archive, const std::string& name, const std::string& bytes) {
  zip_fileinfo about{};
  about.dosDate = 1 << 21 | 1 << 16;  // 1980-01-01, the earliest possible date
  constexpr unsigned regular_file_for_all_to_read = 0100644u << 16;
  about.external_fa = regular_file_for_all_to_read;
  if (zipOpenNewFileInZip64(archive, name.c_str(), &about, nullptr, 0, nullptr, 0, nullptr, 0, 0, 1) !=
      ZIP_OK)
    return false;
  constexpr std::size_t most = 1 << 30;  // minizip's counts have 32 bits
  bool whole = true;
  for (std::size_t at = 0; whole && at < bytes.size(); at += most) {
    const auto count = static_cast<unsigned>(std::min(most, bytes.size() - at));
    whole = zipWriteInFileInZip(archive, bytes.data() + at, count) == ZIP_OK;
  }
  return (zipCloseFileInZip(archive) == ZIP_OK) && whole;
}

bool write_archive(const std::string& path, const Files& files) {
  const zipFile archive = zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  if (archive == nullptr) return false;
  const bool whole =
      std::ranges::all_of(files, [&](const auto& file) { return add(archive, file.first, file.second); });
  return (zipClose(archive, nullptr) == ZIP_OK) && whole;
}

}  // namespace

std::string wheel_name(const Manifest& manifest, const std::string& bundle_sum) {
  return fmt::format("{}-{}-py3-none-any.whl", package_of(manifest), version_of(bundle_sum));
}

Status write_wheel(const Manifest& manifest, const std::string& path, std::string bundle,
                   const std::string& bundle_sum) {
  errno = 0;
  if (write_archive(path, files_of(manifest, std::move(bundle), bundle_sum))) return {};
  const int error = errno != 0 ? errno : EIO;
  return fail(kind_of(error, ErrorKind::invalid),
              fmt::format("cannot write {}: {}", in_quotes(path), std::strerror(error)));
}

}  // namespace regard::aot
