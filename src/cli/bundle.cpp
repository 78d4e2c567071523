// regard bundle: many kernels in one file, for those who ship them.
#include "bundle/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/interruption.h"
#include "base/nearest.h"
#include "base/settings.h"
#include "base/text.h"
#include "bundle/merge.h"
#include "bundle/signing.h"
#include "bundle/trusted_keys.h"
#include "cli/failure.h"
#include "cli/held_signals.h"
#include "cli/json_text.h"
#include "cli/text.h"
#include "cli/verbs.h"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

/// Functions that write a file name it in their errors.
template <class T>
T done(Result<T> result) {
  if (!result) throw error(static_cast<regard_status>(result.error().kind), result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

std::shared_ptr<const Bundle> open(const std::string& path) {
  return value_of(Bundle::open(path), path);
}

Json signer_of(const std::optional<PublicKey>& signer) {
  return signer ? Json(signer->hex()) : Json();
}

Answer keygen(const Request& request) {
  const HeldSignals held;
  const PublicKey made = done(make_key_file(request.paths[0]));
  if (request.json)
    return {json_text(Json{{"file", request.paths[0]}, {"public_key", made.hex()}}, 2) + "\n"};
  return {made.hex() + "\n"};
}

Answer sign(const Request& request) {
  const HeldSignals held;
  const PublicKey signer = done(sign_bundle(request.paths[0], request.key));
  if (request.json) return {json_text(Json{{"file", request.paths[0]}, {"signer", signer.hex()}}, 2) + "\n"};
  return {fmt::format("{} is signed with {}\n", printable(request.paths[0]), signer.hex())};
}

/// What is wrong with a bundle, and as much of its contents as can be read.
Json verified(const std::string& path, const std::vector<PublicKey>& trusted, ExitCode& code) {
  Json row = {{"file", path}};
  Json problems = Json::array();
  const auto note = [&](const Error& error) {
    problems.push_back(error.message);
    code = std::max(code, error.kind == ErrorKind::invalid ? exit_check_failed : exit_internal);
  };
  if (const auto file = RegularFile::open(path, Links::followed); !file) {  // nothing that can be damaged
    note(file.error());
    code = std::max(code, exit_bad_input);
  } else if (const auto bundle = Bundle::open(path, trusted); !bundle) {
    note(bundle.error());
  } else {
    std::uint64_t bytes = 0;
    const Result<std::optional<PublicKey>> signer = (*bundle)->checked_signer();
    if (!signer) note(signer.error());
    for (const BundleKernel& kernel : (*bundle)->kernels()) {
      if (const Result<CacheEntry> entry = (*bundle)->read(kernel); !entry) note(entry.error());
      bytes += kernel.compressed_bytes;
    }
    row["kernels"] = (*bundle)->kernels().size();
    row["packed_bytes"] = bytes;
    row["signer"] = signer_of(signer.value_or(std::nullopt));
  }
  if (!problems.empty()) row["problems"] = problems;
  return row;
}

Answer verify(const Request& request) {
  std::vector<PublicKey> trusted;
  for (const std::string& hex : request.trusted)
    trusted.push_back(value_of(parse_public_key(hex), "--trusted"));
  if (trusted.empty()) trusted = done(trusted_keys(done(settings())));
  ExitCode code = exit_ok;
  Json rows = Json::array();
  for (const std::string& path : request.paths) rows.push_back(verified(path, trusted, code));
  if (request.json) return {json_text(rows, 2) + "\n", code};
  std::string text;
  for (const Json& row : rows) {
    const std::string file = cell(row, "file");
    for (const Json& problem : row.value("problems", Json::array()))
      text += fmt::format("{}: {}\n", file, printable(problem.get<std::string>()));
    if (row.contains("problems")) continue;
    text += fmt::format("{}: ok, {} kernels, {}, {}\n", file, cell(row, "kernels"),
                        readable_bytes(row["packed_bytes"].get<double>()),
                        row["signer"].is_null() ? "not signed" : "signed with " + cell(row, "signer"));
  }
  return {text, code};
}

Answer list(const Request& request) {
  const auto bundle = open(request.paths[0]);
  const Result<std::optional<PublicKey>> signer = bundle->checked_signer();
  const BundleAbout& about = bundle->about();
  Json kernels = Json::array();
  std::vector<std::vector<std::string>> rows = {{"packed", "unpacked", "source", "kernel"}};
  for (const BundleKernel& kernel : bundle->kernels()) {
    kernels.push_back({{"name", kernel.name},
                       {"source", kernel.source.hex()},
                       {"identity", kernel.identity.hex()},
                       {"packed_bytes", kernel.compressed_bytes},
                       {"bytes", kernel.bytes}});
    rows.push_back({readable_bytes(static_cast<double>(kernel.compressed_bytes)),
                    readable_bytes(static_cast<double>(kernel.bytes)), kernel.source.hex().substr(0, 16),
                    printable(kernel.name)});
  }
  Json answer = {{"file", bundle->path()},
                 {"title", about.title},
                 {"version", about.version},
                 {"undeclared", about.undeclared},
                 {"signer", signer_of(bundle->signer())},
                 {"kernels", std::move(kernels)}};
  if (!signer) answer["problems"] = {signer.error().message};
  if (request.json) return {json_text(answer, 2) + "\n"};
  const std::string signature = !signer   ? printable(signer.error().message)
                                : *signer ? "signed with " + (*signer)->hex()
                                          : "not signed";
  return {fmt::format("{}{} kernels{} by Regard {}, undeclared = {}\n{}\n", table(rows), rows.size() - 1,
                      about.title.empty() ? "" : " for " + printable(about.title), printable(about.version),
                      about.undeclared, signature)};
}

Answer merge(const Request& request) {
  const HeldSignals held;
  ask_whether_interrupted([] { return static_cast<int>(HeldSignals::arrived()); });
  std::vector<std::shared_ptr<const Bundle>> parts;
  for (const std::string& path : request.paths) parts.push_back(open(path));
  done(merge_bundles(request.out, parts, regard_version()));
  const std::size_t kernels = open(request.out)->kernels().size();
  if (request.json) return {json_text(Json{{"file", request.out}, {"kernels", kernels}}, 2) + "\n"};
  return {fmt::format("{}: {} kernels\n", printable(request.out), kernels)};
}

struct Verb {
  std::string_view name;
  Answer (*answer)(const Request&);
  bool several_files;
  const char* option;  ///< the option that it takes
  bool needed;         ///< whether the option is required
};
constexpr Verb verbs[] = {{"keygen", keygen, false, nullptr, false},
                          {"sign", sign, false, "--key", true},
                          {"verify", verify, true, "--trusted", false},
                          {"list", list, false, nullptr, false},
                          {"merge", merge, true, "--out", true}};

const Verb& verb_named(std::string_view word) {
  const Verb* const verb = std::ranges::find(verbs, word, &Verb::name);
  if (verb != std::end(verbs)) return *verb;
  std::array<std::string_view, std::size(verbs)> names;
  std::ranges::transform(verbs, names.begin(), &Verb::name);
  fail_with(fmt::format("unknown bundle verb {}{}", in_quotes(word), suggestion(word, names)));
}

/// An option that a verb does not read would be ignored silently.
void check_options(const Verb& verb, const Request& request) {
  const std::pair<std::string_view, bool> given[] = {{"--key", !request.key.empty()},
                                                     {"--trusted", !request.trusted.empty()},
                                                     {"--out", !request.out.empty()}};
  for (const auto& [option, is_given] : given) {
    const bool takes = verb.option != nullptr && option == verb.option;
    if (is_given && !takes) fail_with(fmt::format("bundle {} takes no {}", verb.name, option));
    if (!is_given && takes && verb.needed) fail_with(fmt::format("bundle {} needs {}", verb.name, option));
  }
  if (request.paths.empty()) fail_with(fmt::format("bundle {} needs a file", verb.name));
  if (request.paths.size() > 1 && !verb.several_files)
    fail_with(fmt::format("bundle {} takes one file", verb.name));
}

}  // namespace

Answer bundle_verb(const Request& request) {
  const Verb& verb = verb_named(request.words.front());
  check_options(verb, request);
  return verb.answer(request);
}

}  // namespace regard::cli
