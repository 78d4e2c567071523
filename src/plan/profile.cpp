#include "plan/profile.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>

#include "base/embedded.h"
#include "base/process_lifetime.h"
#include "base/text.h"
#include "plan/kernel_finder.h"
#include "plan/variant_table.h"

namespace regard {

Result<Profile> parse_profile(std::string_view text, std::string_view file) {
  const Result<toml::table> table = parse_toml(text, file);
  if (!table) return tl::unexpected(table.error());
  Profile profile;
  profile.name = stem_of(file);
  SignatureCount count;
  const std::map<std::string_view, TomlReader> readers = {
      {"doc", [&](const TomlValue& v) { return v.text(profile.doc); }},
      {"everything", [&](const TomlValue& v) { return v.flag(profile.everything); }},
      {"variants",
       [&](const TomlValue& v) {
         return read_tables(v, [&](const toml::table& row, int line) -> Status {
           Result<Variant> variant = read_variant(row, file, line);
           if (!variant) return tl::unexpected(variant.error());
           profile.variants.push_back(std::move(*variant));
           return count.add(profile.variants.back(), file, line);
         });
       }},
  };
  if (Status status = read_table(*table, file, readers); !status) return tl::unexpected(status.error());
  if (profile.doc.empty()) return invalid(fmt::format("{}:1: the key 'doc' is missing", file));
  if (profile.variants.empty()) return invalid(fmt::format("{}:1: it has no [[variants]]", file));
  SignatureSet seen;
  for (const Variant& variant : profile.variants) {
    for (const Signature& signature : variant.signatures) {
      if (seen.insert(signature).second) profile.signatures.push_back(signature);
    }
  }
  return profile;
}

namespace {

/// The profiles embedded in the library; each is parsed at first use, as expanding the larger ones takes a
/// while.
struct Shelf {
  std::string_view path;
  std::string name;
  mutable std::atomic<const Result<Profile>*> profile{nullptr}, scarce{nullptr};
};

const std::deque<Shelf>& shelves() {
  return process_lifetime<[] {
    std::deque<Shelf> list;
    for (const EmbeddedFile& file : embedded_files()) {
      if (!file.path.starts_with("profiles/")) continue;
      Shelf& shelf = list.emplace_back();
      shelf.path = file.path;
      shelf.name = stem_of(file.path);
    }
    return list;
  }>();
}

/// Never destroyed and read without a lock, like the results of `process_lifetime`.
const Result<Profile>& profile_on(const Shelf& shelf) {
  if (const Result<Profile>* read = shelf.profile.load(std::memory_order_acquire)) return *read;
  const Result<std::string> text = data_file(shelf.path);
  auto fresh = std::make_unique<const Result<Profile>>(
      text.and_then([&shelf](const std::string& toml) { return parse_profile(toml, shelf.path); }));
  auto& cached = is_scarce(*fresh) ? shelf.scarce : shelf.profile;
  return publish(cached, std::move(fresh));
}

}  // namespace

std::vector<std::string_view> profile_names() {
  std::vector<std::string_view> names;
  for (const Shelf& shelf : shelves()) names.push_back(shelf.name);
  return names;
}

Result<const Profile*> find_profile(std::string_view name) {
  for (const Shelf& shelf : shelves()) {
    if (shelf.name != name) continue;
    const Result<Profile>& profile = profile_on(shelf);
    if (!profile) return tl::unexpected(profile.error());
    return &*profile;
  }
  return invalid(fmt::format("unknown profile {}{}", in_quotes(name), suggestion(name, profile_names())));
}

bool lets_through(const Profile& profile, const Signature& signature) {
  if (profile.everything) return validate(example_of(signature)).has_value();
  return std::find(profile.signatures.begin(), profile.signatures.end(), signature) !=
         profile.signatures.end();
}

Result<std::vector<KernelKey>> keys_of_profile(const Profile& profile, const Target& target) {
  KernelNumbers numbers;
  const KernelFinder::Needed needed = KernelFinder(profile.variants, numbers).on(target);
  std::map<std::string, KernelKey> keys;
  for (const std::uint64_t number : needed.numbers) {
    KernelKey key = numbers.key_of(number, target.name);
    keys.emplace(print(key), std::move(key));
  }
  std::vector<KernelKey> list;
  for (auto& [text, key] : keys) list.push_back(std::move(key));
  return list;
}

}  // namespace regard
