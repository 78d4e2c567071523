#include "aot/manifest.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "aot/record.h"
#include "aot/selection.h"
#include "base/files.h"
#include "base/interruption.h"
#include "plan/profile.h"
#include "plan/recipe.h"
#include "plan/variant_table.h"
#include "problem/words.h"

namespace regard {

REGARD_WORDS_OF(aot::Output, REGARD_OUTPUTS)
REGARD_WORDS_OF(Undeclared, REGARD_UNDECLARED)

namespace aot {

std::string_view word(Output output) {
  return word_in_list(output);
}

namespace {

constexpr std::uint64_t longest_tuning = 64 << 20;

/// Reads one manifest; relative paths in it start at its folder.
class Reader {
 public:
  explicit Reader(const std::string& path) : file_(printable(path)) {
    manifest_.file = path;
    folder_ = path.substr(0, path.find_last_of('/') + 1);  // empty where there is none
  }

  Result<Manifest> read(std::string_view text) {
    const Result<toml::table> table = parse_toml(text, file_);
    if (!table) return tl::unexpected(table.error());
    const std::map<std::string_view, TomlReader> readers = {
        {"build", [this](const TomlValue& v) { return read_build(v); }},
        {"variants", tables([this](const toml::table& t, int line) { return count_variants(t, line); })},
        {"exclude", tables([this](const toml::table& t, int line) { return read_exclude(t, line); })},
        {"binaries", tables([this](const toml::table& t, int line) { return read_binary(t, line); })},
    };
    if (Status status = read_table(*table, file_, readers); !status) return tl::unexpected(status.error());
    if (!has_build_) return wrong(1, "the table [build] is missing, which names the targets");
    if (manifest_.variants.empty() && manifest_.binaries.empty())
      return wrong(1, "it has neither [[variants]] nor [[binaries]], so that there is nothing to build");
    return std::move(manifest_);
  }

 private:
  tl::unexpected<Error> wrong(int line, std::string_view sentence) const {
    return invalid(fmt::format("{}:{}: {}", file_, line, sentence));
  }
  tl::unexpected<Error> wrong(int line, const Error& error) const {
    return fail(error.kind, fmt::format("{}:{}: {}", file_, line, error.message));
  }
  static int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

  static TomlReader tables(std::function<Status(const toml::table&, int)> read) {
    return [read = std::move(read)](const TomlValue& value) { return read_tables(value, read); };
  }

  std::string beside(const std::string& path) const { return path.starts_with('/') ? path : folder_ + path; }

  /// A non-empty list without duplicates.
  static Status list_of_texts(const TomlValue& value, std::vector<std::string>& out) {
    if (Status status = value.texts(out); !status) return status;
    if (out.empty()) return invalid(fmt::format("{}: '{}' is an empty list", value.where(), value.key));
    std::set<std::string_view> seen;
    for (const std::string& name : out) {
      if (!seen.insert(name).second)
        return invalid(fmt::format("{}: {} is twice in '{}'", value.where(), in_quotes(name), value.key));
    }
    return {};
  }

  static Status read_namespace(const TomlValue& value, std::string& out) {
    constexpr std::size_t longest = 64;
    if (Status status = value.text(out); !status) return status;
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto fits = [&](char c) { return is_letter(c) || is_digit(c) || c == '_'; };
    if (out.empty() || !is_letter(out.front()) || out.back() == '_' || !std::ranges::all_of(out, fits) ||
        out.size() > longest) {
      return invalid(fmt::format(
          "{}: {} is not a namespace; it is 1 to {} lower-case letters (a to z), digits and '_', which "
          "begin with a letter and do not end with '_'",
          value.where(), in_quotes(out), longest));
    }
    if (out.find("regard") != std::string::npos) {
      return invalid(
          fmt::format("{}: the namespace {} has 'regard' in it, with which the library's own names begin; "
                      "choose another one",
                      value.where(), in_quotes(out)));
    }
    return {};
  }

  Status read_targets(const TomlValue& value) {
    std::vector<std::string> names;
    if (Status status = list_of_texts(value, names); !status) return status;
    for (const std::string& name : names) {
      const Result<const Target*> target = find_target(name);
      if (!target) return wrong(line_of(value.node), target.error());
      manifest_.targets.push_back(*target);
    }
    return {};
  }

  Status read_outputs(const TomlValue& value) {
    std::vector<std::string> words;
    if (Status status = list_of_texts(value, words); !status) return status;
    manifest_.outputs.clear();
    return value.words(manifest_.outputs);
  }

  Status read_undeclared(const TomlValue& value) {
    std::vector<std::string_view> words;
    for (const WordInfo& info : words_of<Undeclared>()) words.push_back(info.word);
    std::string text;
    if (Status status = value.word(text, words); !status) return status;
    manifest_.undeclared = *from_word<Undeclared>(text);
    manifest_.undeclared_line = line_of(value.node);
    return {};
  }

  Status read_build(const TomlValue& value) {
    const toml::table* table = value.node.as_table();
    if (table == nullptr) return value.wrong("a table, [build]");
    has_build_ = true;
    std::string tuning;
    int tuning_line = 0;
    const std::map<std::string_view, TomlReader> readers = {
        {"namespace", [this](const TomlValue& v) { return read_namespace(v, manifest_.name_space); }},
        {"targets", [this](const TomlValue& v) { return read_targets(v); }},
        {"output", [this](const TomlValue& v) { return read_outputs(v); }},
        {"undeclared", [this](const TomlValue& v) { return read_undeclared(v); }},
        {"tuning", [&](const TomlValue& v) { return tuning_line = line_of(v.node), v.text(tuning); }},
    };
    if (Status status = read_table(*table, file_, readers); !status) return status;
    const int line = line_of(value.node);
    if (manifest_.targets.empty())
      return wrong(line, "the key 'targets' is missing, e.g. targets = [\"sm_90a\", \"cpu-avx2\"]");
    for (const Output output : manifest_.outputs) {
      if (!manifest_.name_space.empty() || output == Output::bundle) continue;
      return wrong(line, fmt::format("the output '{}' needs a 'namespace', which its names have in them",
                                     word(output)));
    }
    return tuning_line == 0 ? Status() : take_tuning(tuning, tuning_line);
  }

  /// Adds the measured problems to the build, each with exactly the kernels that its record chose.
  Status take_tuning(const std::string& name, int line) {
    const std::string path = beside(name);
    const Result<std::string> text = read_file(path, longest_tuning, Links::followed);
    if (!text) {
      return wrong(line, Error(text.error().kind, fmt::format("the tuning records {} cannot be read: {}",
                                                              in_quotes(path), text.error().message)));
    }
    Result<std::vector<TunedProblem>> records = parse_tuning(*text, path);
    if (!records) return wrong(line, records.error());
    if (records->empty()) return wrong(line, fmt::format("{} has no tuning records", in_quotes(path)));
    manifest_.records.push_back(path);
    Manifest::Variants variants{line, "tuning " + printable(name), {}, {}};
    for (TunedProblem& one : *records) {
      const Result<const Target*> target = find_target(one.record.target);
      const Result<Problem> problem = parse(one.record.problem);
      if (!target) return wrong(line, target.error());
      if (!problem) return wrong(line, problem.error());
      variants.problems.push_back({*problem, *target, printable(path), line});
      if (std::ranges::find(manifest_.targets, *target) != manifest_.targets.end())
        manifest_.tuning.push_back(std::move(one));
    }
    manifest_.variants.push_back(std::move(variants));
    return {};
  }

  Status read_variants(const toml::table& table, int line) {
    Manifest::Variants& variants = manifest_.variants.emplace_back();
    variants.line = line;
    std::optional<std::string> profile, record;
    std::map<std::string_view, TomlReader> readers;
    const auto nothing = [](const TomlValue&) { return Status(); };
    for (const std::string_view key : variant_keys()) readers[key] = nothing;
    readers["profile"] = [&](const TomlValue& v) { return v.text(profile.emplace()); };
    readers["record"] = [&](const TomlValue& v) { return v.text(record.emplace()); };
    readers["problems"] = [&](const TomlValue& v) { return read_problems(v, variants); };
    if (Status status = read_table(table, file_, readers); !status) return status;
    for (const std::string_view source : {"profile", "problems", "record"}) {
      if (!table.contains(source)) continue;
      for (const auto& [key, node] : table) {
        if (key.str() == source || (source == "profile" && key.str() == "recipes")) continue;
        return wrong(
            line_of(node),
            fmt::format("'{}' does not go with '{}', which {}; give it a [[variants]] table of its own",
                        key.str(), source,
                        source == "profile" ? "allows only 'recipes' with it" : "must be alone"));
      }
    }
    if (table.empty()) {
      return wrong(line,
                   "this [[variants]] is empty; give it the fields of signatures, e.g. d = 128, or one of "
                   "'profile', 'problems' and 'record'");
    }
    if (table.contains("problems")) return {};
    if (record) return take_record(*record, variants);
    if (profile) return take_profile(table, *profile, variants);
    Result<Variant> product = read_variant(table, file_, line, interrupted);
    if (interrupted()) return interruption_of_selection();
    if (!product) return tl::unexpected(product.error());
    variants.what = "product";
    variants.products.push_back(std::move(*product));
    return {};
  }

  Status count_variants(const toml::table& table, int line) {
    if (Status status = read_variants(table, line); !status) return status;
    for (const Variant& product : manifest_.variants.back().products) {
      if (Status status = signatures_.add(product, file_, line); !status) return status;
    }
    return {};
  }

  Status take_profile(const toml::table& table, const std::string& name, Manifest::Variants& variants) {
    const Result<const Profile*> profile = find_profile(name);
    if (!profile) return wrong(line_of(*table.get("profile")), profile.error());
    variants.what = "profile " + name;
    variants.products = (*profile)->variants;
    const toml::node* requested = table.get("recipes");
    if (requested == nullptr) return {};
    std::vector<std::string> recipes;
    if (Status status = TomlValue{*requested, file_, "recipes"}.texts(recipes, recipe_words()); !status)
      return status;
    for (Variant& variant : variants.products) variant.recipes = recipes;
    return {};
  }

  Status read_problems(const TomlValue& value, Manifest::Variants& variants) {
    variants.what = "problems";
    std::vector<std::string> texts;
    if (Status status = list_of_texts(value, texts); !status) return status;
    for (const toml::node& item : *value.node.as_array()) {
      const int line = line_of(item);
      const Result<Problem> problem = parse(*item.value_exact<std::string>());
      if (!problem) return wrong(line, problem.error());
      if (Status status = validate(*problem); !status) return wrong(line, status.error());
      variants.problems.push_back({*problem, nullptr, fmt::format("{}:{}", file_, line), line});
    }
    return {};
  }

  Status take_record(const std::string& name, Manifest::Variants& variants) {
    const std::string path = beside(name);
    const Result<Record> record = read_record(path);
    if (!record) return wrong(variants.line, record.error());
    manifest_.records.push_back(path);
    variants.what = "record " + printable(name);
    manifest_.warnings.insert(manifest_.warnings.end(), record->left_out.begin(), record->left_out.end());
    for (const Record::Line& line : record->lines) {
      variants.problems.push_back(
          {line.problem, line.target, fmt::format("{}:{}", printable(path), line.number), variants.line});
    }
    if (variants.problems.empty() && !record->left_out.empty()) {
      return wrong(variants.line,
                   fmt::format("the record {} has no problems but those of lines that are left out: {}",
                               in_quotes(path), record->left_out.front()));
    }
    if (variants.problems.empty())
      return wrong(variants.line, fmt::format("the record {} has no problems", in_quotes(path)));
    return {};
  }

  Status read_exclude(const toml::table& table, int line) {
    Result<Exclusion> exclusion = read_exclusion(table, file_, line);
    if (!exclusion) return tl::unexpected(exclusion.error());
    manifest_.exclude.push_back({line, std::move(*exclusion)});
    return {};
  }

  Status read_binary(const toml::table& table, int line) {
    std::string path, text;
    const std::map<std::string_view, TomlReader> readers = {
        {"file", [&](const TomlValue& v) { return v.text(path); }},
        {"key", [&](const TomlValue& v) { return v.text(text); }},
    };
    if (Status status = read_table(table, file_, readers); !status) return status;
    if (path.empty()) return wrong(line, "the key 'file' is missing, the path of the code object");
    if (text.empty())
      return wrong(line, "the key 'key' is missing, the text of the kernel that the file has");
    Result<KernelKey> key = parse_kernel_key(text);
    if (!key) return wrong(line, key.error());
    const Result<RegularFile> file = RegularFile::open(beside(path), Links::followed);
    if (!file) {
      const std::string why =
          fmt::format("the file {} cannot be used: {}", in_quotes(beside(path)), file.error().message);
      return wrong(line, Error(file.error().kind, why));
    }
    for (const Manifest::Binary& other : manifest_.binaries) {
      if (other.key == *key)
        return wrong(line, fmt::format("its key has a file already, in line {}", other.line));
    }
    manifest_.binaries.push_back({line, beside(path), std::move(*key)});
    return {};
  }

  Manifest manifest_;
  std::string file_, folder_;
  bool has_build_ = false;
  SignatureCount signatures_;  // of all tables
};

}  // namespace

Result<Manifest> parse_manifest(std::string_view text, const std::string& path) {
  return Reader(path).read(text);
}

Result<Manifest> read_manifest(const std::string& path) {
  const Result<std::string> text = read_file(path, longest_toml, Links::followed);
  if (!text) {
    return fail(text.error().kind,
                fmt::format("the manifest {} cannot be read: {}", in_quotes(path), text.error().message));
  }
  return parse_manifest(*text, path);
}

}  // namespace aot
}  // namespace regard
