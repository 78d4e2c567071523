#include "plan/profile.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <unordered_set>

#include "base/embedded.h"
#include "base/forever.h"
#include "base/printable.h"
#include "plan/recipe.h"
#include "plan/refusal.h"
#include "plan/stage.h"
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

/// Ten times what the largest profile makes before those that make no sense are left out.
constexpr std::size_t most_combinations = 1 << 18;

/// Multiplies `texts` by the values of one key.
Status multiply(const TomlValue& value, std::vector<std::string>& texts) {
  std::vector<const toml::node*> items;
  if (const toml::array* array = value.node.as_array()) {
    for (const toml::node& item : *array) items.push_back(&item);
  } else {
    items.push_back(&value.node);
  }
  if (items.size() * texts.size() > most_combinations) {
    return invalid(fmt::format(
        "{}: with '{}' the lists of this table make {} combinations, but may make at most {}; give some "
        "of them a table of their own",
        value.where(), value.key, items.size() * texts.size(), most_combinations));
  }
  std::vector<std::string> product;
  product.reserve(items.size() * texts.size());
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

struct SignatureHash {
  std::size_t operator()(const Signature& signature) const { return hash(signature); }
};
using SignatureSet = std::unordered_set<Signature, SignatureHash>;

/// The product of a table's lists. Combinations that make no sense on any target, such as a gradient of a
/// bias that is not there, are not part of it.
Status expand(const toml::table& table, std::string_view file, int line, Profile::Variant& variant) {
  std::vector<std::string> texts = {""};
  std::map<std::string_view, TomlReader> readers = {
      {"recipes", [&](const TomlValue& v) { return v.texts(variant.recipes, recipe_words()); }},
  };
  for (const FieldInfo& field : field_table()) {
    if (field.category == Category::SHAPE) continue;
    readers[field.name] = [&texts](const TomlValue& value) { return multiply(value, texts); };
  }
  if (Status status = read_table(table, file, readers); !status) return status;
  SignatureSet seen;
  std::string last_refusal;
  for (const std::string& text : texts) {
    const Result<Signature> signature = parse_signature(text);
    if (!signature) return invalid(fmt::format("{}:{}: {}", file, line, signature.error().message));
    if (Status status = validate(example_of(*signature)); !status) {
      last_refusal = status.error().message;
      continue;
    }
    if (seen.insert(*signature).second) variant.signatures.push_back(*signature);
  }
  if (!variant.signatures.empty()) return {};
  return invalid(
      fmt::format("{}:{}: no combination of this table makes sense: {}", file, line, last_refusal));
}

}  // namespace

Problem example_of(const Signature& signature) {
  Problem problem;
  problem.b = problem.hq = problem.hk = 2;
  problem.sq = problem.sk = 64;
  if (signature.pass == Pass::append) problem.snew = 1;
  // A window that hides something, so that the kernel is one with a mask.
  if (signature.mask == Mask::window || signature.mask == Mask::window_top_left) problem.window_left = 0;
#define REGARD_COPY_SIGNATURE(name) problem.name = signature.name;
#define REGARD_COPY_PRESENCE(name) problem.name = signature.name ? 0.5 : 0;
#define REGARD_COPY_SHAPE(name)
#define REGARD_COPY(category, type, name, default_value, doc) REGARD_COPY_##category(name)
  REGARD_PROBLEM_FIELDS(REGARD_COPY)
#undef REGARD_COPY
#undef REGARD_COPY_SIGNATURE
#undef REGARD_COPY_PRESENCE
#undef REGARD_COPY_SHAPE
  return problem;
}

Result<Profile> parse_profile(std::string_view text, std::string_view file) {
  const Result<toml::table> table = parse_toml(text, file);
  if (!table) return tl::unexpected(table.error());
  Profile profile;
  profile.name = stem_of(file);
  std::size_t count = 0;
  const std::map<std::string_view, TomlReader> readers = {
      {"doc", [&](const TomlValue& v) { return v.text(profile.doc); }},
      {"everything", [&](const TomlValue& v) { return v.flag(profile.everything); }},
      {"variants",
       [&](const TomlValue& v) {
         return read_tables(v, [&](const toml::table& row, int line) -> Status {
           if (Status status = expand(row, file, line, profile.variants.emplace_back()); !status)
             return status;
           count += profile.variants.back().signatures.size();
           if (count <= most_combinations) return {};
           return invalid(fmt::format("{}:{}: with this table its signatures are more than {}", file, line,
                                      most_combinations));
         });
       }},
  };
  if (Status status = read_table(*table, file, readers); !status) return tl::unexpected(status.error());
  if (profile.doc.empty()) return invalid(fmt::format("{}:1: the key 'doc' is missing", file));
  if (profile.variants.empty()) return invalid(fmt::format("{}:1: it has no [[variants]]", file));
  SignatureSet seen;
  for (const Profile::Variant& variant : profile.variants) {
    for (const Signature& signature : variant.signatures) {
      if (seen.insert(signature).second) profile.signatures.push_back(signature);
    }
  }
  return profile;
}

namespace {

/// The profiles that travel with the library; each is parsed when it is first asked for, as expanding the
/// larger ones takes a while.
struct Shelf {
  std::string_view path;
  std::string name;
  mutable std::atomic<const Result<Profile>*> profile{nullptr}, scarce{nullptr};
};

const std::deque<Shelf>& shelves() {
  return forever<[] {
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

/// Never destroyed and read without a lock, like what `forever` gives.
const Result<Profile>& profile_on(const Shelf& shelf) {
  if (const Result<Profile>* read = shelf.profile.load(std::memory_order_acquire)) return *read;
  const Result<std::string> text = data_file(shelf.path);
  auto fresh = std::make_unique<const Result<Profile>>(
      text.and_then([&shelf](const std::string& toml) { return parse_profile(toml, shelf.path); }));
  auto& place = is_scarce(*fresh) ? shelf.scarce : shelf.profile;
  return publish(place, std::move(fresh));
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

namespace {

/// What decides whether and with which kernels a recipe serves a signature: more than the main kernel's
/// canonical signature only where a rule asks for it.
Signature needs_of(const Signature& signature, const Recipe& recipe, const Target& target) {
  Signature needs = recipe.main->depends_on(signature);
  needs.dtype = signature.dtype;
  needs.out = signature.out;
  needs.d = signature.d;
  needs.dv = signature.dv;
  needs.dropout = signature.dropout;
  if (target.on_cpu()) return needs;
  // Whether heads share a block, and blocks a cluster.
  needs.varlen = signature.varlen;
  needs.lengths = signature.lengths;
  needs.batch_invariant = signature.batch_invariant;
  return needs;
}

/// The kernels of a candidate for some shape of this signature.
std::vector<KernelKey> keys_of(const Problem& example, const Target& target, const Candidate& candidate) {
  const PlanOptions any;
  const Question question{example, target, candidate, any};
  if (first_refusal(question, /*of_signature=*/true)) return {};
  std::vector<KernelKey> keys;
  for (const Kernel* kernel : candidate.recipe->stages) {
    const bool main = kernel == candidate.recipe->main;
    const Target::Tile* tile = main ? candidate.tile : first_tile(target, kernel->name);
    const KernelKey key = stage_of(example, target, *kernel, tile, 0, 0).key;
    const auto variants = kernel->variants == nullptr ? std::vector{key} : kernel->variants(question, key);
    keys.insert(keys.end(), variants.begin(), variants.end());
  }
  return keys;
}

}  // namespace

Result<std::vector<KernelKey>> kernels_of(const Profile& profile, const Target& target) {
  // A main kernel's canonical signature decides who serves it, so each one is asked once.
  std::map<std::pair<const Target::Tile*, const Recipe*>, SignatureSet> asked;
  std::map<std::string, KernelKey> keys;
  for (const Profile::Variant& variant : profile.variants) {
    for (const Signature& signature : variant.signatures) {
      const Problem example = example_of(signature);
      if (!unwritten(example).empty()) continue;
      for (const Candidate& candidate : candidates(example.pass, target)) {
        const Recipe& recipe = *candidate.recipe;
        const bool wanted = std::any_of(variant.recipes.begin(), variant.recipes.end(),
                                        [&](const std::string& name) { return goes_by(recipe, name); });
        if (!variant.recipes.empty() && !wanted) continue;
        if (!asked[{candidate.tile, &recipe}].insert(needs_of(signature, recipe, target)).second) continue;
        for (const KernelKey& key : keys_of(example, target, candidate)) keys.emplace(print(key), key);
      }
    }
  }
  std::vector<KernelKey> list;
  for (auto& [text, key] : keys) list.push_back(std::move(key));
  return list;
}

}  // namespace regard
