#include "plan/variant_table.h"

#include <algorithm>
#include <map>

#include "base/process_lifetime.h"
#include "plan/recipe.h"

namespace regard {
namespace {

/// Ten times what the largest profile produces before meaningless combinations are dropped.
constexpr std::size_t most_combinations = 1 << 18;

/// The word for one field with one value: pass and dtype print bare, a bool as its name or nothing.
Result<std::string> word_of(const TomlValue& value, const toml::node& item) {
  if (const auto flag = item.value_exact<bool>()) return *flag ? std::string(value.key) : std::string();
  if (const auto number = item.value_exact<std::int64_t>()) return fmt::format("{}={}", value.key, *number);
  if (const auto text = item.value_exact<std::string>()) {
    if (value.key == "pass" || value.key == "dtype") return *text;
    if (text->find(' ') != std::string::npos) return fmt::format("{}=\"{}\"", value.key, *text);
    return fmt::format("{}={}", value.key, *text);
  }
  return tl::unexpected(value.wrong("a string, a whole number, true or false, or a list of them").value());
}

/// The words for one key: for its value, or for each in its list.
Result<std::vector<std::string>> words_of(const TomlValue& value) {
  std::vector<const toml::node*> items;
  if (const toml::array* array = value.node.as_array()) {
    for (const toml::node& item : *array) items.push_back(&item);
  } else {
    items.push_back(&value.node);
  }
  if (items.empty()) {
    return invalid(fmt::format("{}: '{}' is an empty list; give it values, or leave the key out",
                               value.where(), value.key));
  }
  std::vector<std::string> words;
  for (const toml::node* item : items) {
    Result<std::string> word = word_of(value, *item);
    if (!word) return tl::unexpected(word.error());
    words.push_back(std::move(*word));
  }
  return words;
}

/// Multiplies `texts` by the values of one key.
Status multiply(const TomlValue& value, std::vector<std::string>& texts) {
  const Result<std::vector<std::string>> words = words_of(value);
  if (!words) return tl::unexpected(words.error());
  if (words->size() * texts.size() > most_combinations) {
    return invalid(fmt::format(
        "{}: with '{}' the lists of this table make {} combinations, but may make at most {}; give some "
        "of them a table of their own",
        value.where(), value.key, words->size() * texts.size(), most_combinations));
  }
  std::vector<std::string> product;
  product.reserve(words->size() * texts.size());
  for (const std::string& text : texts) {
    for (const std::string& word : *words) product.push_back(word.empty() ? text : text + " " + word);
  }
  texts = std::move(product);
  return {};
}

/// Passes the fields of a signature to `read`.
template <class Read>
void read_fields(std::map<std::string_view, TomlReader>& readers, const Read& read) {
  for (std::size_t i = 0; i < field_table().size(); ++i) {
    if (field_table()[i].category == Category::SHAPE) continue;
    readers[field_table()[i].name] = [&read, i](const TomlValue& v) {
      return read(static_cast<Field>(i), v);
    };
  }
}

}  // namespace

Result<Variant> read_variant(const toml::table& table, std::string_view file, int line, bool (*stop)()) {
  Variant variant;
  std::vector<std::string> texts = {""};
  std::map<std::string_view, TomlReader> readers = {
      {"recipes", [&](const TomlValue& v) { return v.texts(variant.recipes, recipe_words()); }},
  };
  const auto read = [&texts](Field, const TomlValue& value) { return multiply(value, texts); };
  read_fields(readers, read);
  if (Status status = read_table(table, file, readers); !status) return tl::unexpected(status.error());
  SignatureSet seen;
  std::string last_refusal;
  std::map<Pass, std::string> refused_passes;  // with the last refusal of each
  for (const std::string& text : texts) {
    if (stop != nullptr && stop()) return variant;
    const Result<Signature> signature = parse_signature(text);
    if (!signature) return invalid(fmt::format("{}:{}: {}", file, line, signature.error().message));
    if (Status status = validate(example_of(*signature)); !status) {
      last_refusal = refused_passes[signature->pass] = status.error().message;
      continue;
    }
    if (seen.insert(*signature).second) variant.signatures.push_back(*signature);
  }
  if (variant.signatures.empty())
    return invalid(
        fmt::format("{}:{}: no combination of this table makes sense: {}", file, line, last_refusal));
  for (const auto& [pass, refusal] : refused_passes) {
    if (std::ranges::find(variant.signatures, pass, &Signature::pass) != variant.signatures.end()) continue;
    return invalid(
        fmt::format("{}:{}: no combination of this table with {} makes sense: {}; give {} a table of its own",
                    file, line, word(pass), refusal, word(pass)));
  }
  return variant;
}

Status SignatureCount::add(const Variant& variant, std::string_view file, int line) {
  count_ += variant.signatures.size();
  if (count_ <= most_combinations) return {};
  return invalid(
      fmt::format("{}:{}: with this table its signatures are more than {}", file, line, most_combinations));
}

std::span<const std::string_view> variant_keys() {
  return process_lifetime<[] {
    std::vector<std::string_view> keys = {"recipes"};
    for (const FieldInfo& field : field_table())
      if (field.category != Category::SHAPE) keys.push_back(field.name);
    return keys;
  }>();
}

Result<Exclusion> read_exclusion(const toml::table& table, std::string_view file, int line) {
  Exclusion exclusion;
  const auto read = [&exclusion](Field field, const TomlValue& value) -> Status {
    const Result<std::vector<std::string>> words = words_of(value);
    if (!words) return tl::unexpected(words.error());
    std::vector<Signature>& listed = exclusion.fields.emplace_back(field).values;
    for (const std::string& word : *words) {
      const Result<Signature> signature = word.empty() ? Signature() : parse_signature(word);
      if (!signature) return invalid(fmt::format("{}: {}", value.where(), signature.error().message));
      listed.push_back(*signature);
    }
    return {};
  };
  std::map<std::string_view, TomlReader> readers;
  read_fields(readers, read);
  if (Status status = read_table(table, file, readers); !status) return tl::unexpected(status.error());
  if (exclusion.fields.empty())
    return invalid(fmt::format("{}:{}: it has no keys, and would leave everything out", file, line));
  return exclusion;
}

}  // namespace regard
