#include "plan/profile.h"

#include <algorithm>

#include "base/embedded.h"
#include "plan/recipe.h"
#include "plan/strict_toml.h"
#include "problem/fields.h"

namespace regard {
namespace {

/// The word of one field with one value: pass and dtype print bare, a bool as its name or nothing.
Result<std::string> word_of(const TomlValue& value, const toml::node& item) {
  if (const auto flag = item.value_exact<bool>()) return *flag ? std::string(value.key) : std::string();
  if (const auto number = item.value_exact<std::int64_t>()) return fmt::format("{}={}", value.key, *number);
  if (const auto text = item.value_exact<std::string>()) {
    if (value.key == "pass" || value.key == "dtype") return *text;
    return fmt::format("{}={}", value.key, *text);
  }
  return tl::unexpected(value.wrong("a string, a whole number, true or false, or a list of them").value());
}

/// Multiplies `texts` by the values of one key.
Status multiply(const TomlValue& value, std::vector<std::string>& texts) {
  std::vector<const toml::node*> items;
  if (const toml::array* array = value.node.as_array()) {
    for (const toml::node& item : *array) items.push_back(&item);
  } else {
    items.push_back(&value.node);
  }
  std::vector<std::string> product;
  for (const std::string& text : texts) {
    for (const toml::node* item : items) {
      const Result<std::string> word = word_of(value, *item);
      if (!word) return tl::unexpected(word.error());
      product.push_back(word->empty() ? text : text + " " + *word);
    }
  }
  texts = std::move(product);
  return {};
}

Status expand(const toml::table& table, std::string_view file, int line, std::vector<Signature>& out) {
  std::map<std::string_view, TomlReader> readers;
  std::vector<std::string> texts = {""};
  for (const FieldInfo& field : field_table()) {
    if (field.category == Category::SHAPE) continue;
    readers[field.name] = [&texts](const TomlValue& value) { return multiply(value, texts); };
  }
  if (Status status = read_table(table, file, readers); !status) return status;
  for (const std::string& text : texts) {
    const Result<Signature> signature = parse_signature(text);
    if (!signature) return invalid(fmt::format("{}:{}: {}", file, line, signature.error().message));
    if (std::find(out.begin(), out.end(), *signature) == out.end()) out.push_back(*signature);
  }
  return {};
}

}  // namespace

Result<Profile> parse_profile(std::string_view text, std::string_view file) {
  const Result<toml::table> table = parse_toml(text, file);
  if (!table) return tl::unexpected(table.error());
  Profile profile;
  profile.name = file.substr(file.find_last_of('/') + 1);
  profile.name = profile.name.substr(0, profile.name.find(".toml"));
  const std::map<std::string_view, TomlReader> readers = {
      {"doc", [&](const TomlValue& v) { return v.text(profile.doc); }},
      {"variants",
       [&](const TomlValue& v) {
         return read_tables(v, [&](const toml::table& row, int line) {
           return expand(row, file, line, profile.signatures);
         });
       }},
  };
  if (Status status = read_table(*table, file, readers); !status) return tl::unexpected(status.error());
  return profile;
}

const Result<std::vector<Profile>>& profiles() {
  static const Result<std::vector<Profile>> all = []() -> Result<std::vector<Profile>> {
    std::vector<Profile> parsed;
    for (const EmbeddedFile& file : embedded_files()) {
      if (!file.path.starts_with("profiles/")) continue;
      const Result<std::string> text = data_file(file.path);
      if (!text) return tl::unexpected(text.error());
      Result<Profile> profile = parse_profile(*text, file.path);
      if (!profile) return tl::unexpected(profile.error());
      parsed.push_back(std::move(*profile));
    }
    return parsed;
  }();
  return all;
}

Result<const Profile*> find_profile(std::string_view name) {
  const Result<std::vector<Profile>>& all = profiles();
  if (!all) return tl::unexpected(all.error());
  std::vector<std::string_view> names;
  for (const Profile& profile : *all) {
    if (profile.name == name) return &profile;
    names.push_back(profile.name);
  }
  return invalid(fmt::format("unknown profile '{}'{}", name, suggestion(name, names)));
}

bool lets_through(const Profile& profile, const Signature& signature) {
  return std::find(profile.signatures.begin(), profile.signatures.end(), signature) !=
         profile.signatures.end();
}

Result<std::vector<KernelKey>> kernels_of(const Profile& profile, const Target& target) {
  std::map<std::string, KernelKey> keys;
  const auto add = [&](const Signature& signature, std::string_view kernel, const Target::Tile* tile) {
    KernelKey key;
    key.target = target.name;
    key.signature = canonical(signature, kernel, target.name);
    key.algorithm.kernel = kernel;
    if (tile != nullptr) {
#define REGARD_COPY(name, default_value, doc)                                   \
  if (const auto value = tile->values.find(#name); value != tile->values.end()) \
    key.algorithm.name = value->second;
      REGARD_ALGORITHM_FIELDS(REGARD_COPY)
#undef REGARD_COPY
    }
    keys.emplace(print(key), key);
  };
  for (const Signature& signature : profile.signatures) {
    for (const Recipe& recipe : recipes()) {
      if (recipe.pass != signature.pass || recipe.make == nullptr) continue;
      for (const Target::Tile& tile : target.tiles) {
        const bool takes =
            std::find(tile.dtypes.begin(), tile.dtypes.end(), signature.dtype) != tile.dtypes.end();
        if (tile.kernel != recipe.kernel || !takes || signature.d > tile.max_d || signature.dv > tile.max_dv)
          continue;
        for (std::string_view kernel : stage_kernels(recipe)) {
          add(signature, kernel, kernel == recipe.kernel ? &tile : nullptr);
        }
      }
    }
  }
  std::vector<KernelKey> list;
  for (auto& [text, key] : keys) list.push_back(std::move(key));
  return list;
}

}  // namespace regard
