#include "plan/target.h"

#include <algorithm>

#include "base/embedded.h"
#include "plan/kernel_key.h"
#include "plan/strict_toml.h"

namespace regard {
namespace {

constexpr std::string_view kinds[] = {"cpu", "cuda", "hip"};

Status read_tile(const toml::table& table, std::string_view file, int line, Target::Tile& tile) {
  tile.line = line;
  std::map<std::string_view, TomlReader> readers = {
      {"kernel", [&](const TomlValue& v) { return v.text(tile.kernel); }},
      {"dtypes", [&](const TomlValue& v) { return v.words(tile.dtypes); }},
      {"max_d", [&](const TomlValue& v) { return v.number(tile.max_d); }},
      {"max_dv", [&](const TomlValue& v) { return v.number(tile.max_dv); }},
  };
#define REGARD_READER(name, default_value, doc) \
  readers[#name] = [&](const TomlValue& v) { return v.number(tile.values[#name]); };
  REGARD_ALGORITHM_FIELDS(REGARD_READER)
#undef REGARD_READER
  return read_table(table, file, readers);
}

std::string stem_of(std::string_view file) {
  file.remove_prefix(file.find_last_of('/') + 1);
  return std::string(file.substr(0, file.find(".toml")));
}

}  // namespace

bool Target::has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

Result<Target> parse_target(std::string_view text, std::string_view file) {
  const Result<toml::table> table = parse_toml(text, file);
  if (!table) return tl::unexpected(table.error());
  Target target;
  target.name = stem_of(file);
  std::string kind;
  const std::map<std::string_view, TomlReader> readers = {
      {"doc", [&](const TomlValue& v) { return v.text(target.doc); }},
      {"kind", [&](const TomlValue& v) { return v.word(kind, kinds); }},
      {"dtypes", [&](const TomlValue& v) { return v.words(target.dtypes); }},
      {"features", [&](const TomlValue& v) { return v.texts(target.features); }},
      {"options", [&](const TomlValue& v) { return v.texts(target.options); }},
      {"cpu_flags", [&](const TomlValue& v) { return v.texts(target.cpu_flags); }},
      {"preference", [&](const TomlValue& v) { return v.number(target.preference); }},
      {"vector_bytes", [&](const TomlValue& v) { return v.number(target.vector_bytes); }},
      {"max_threads_per_block", [&](const TomlValue& v) { return v.number(target.max_threads_per_block); }},
      {"shared_memory", [&](const TomlValue& v) { return v.number(target.shared_memory); }},
      {"registers", [&](const TomlValue& v) { return v.number(target.registers); }},
      {"wave", [&](const TomlValue& v) { return v.number(target.wave); }},
      {"tile",
       [&](const TomlValue& v) {
         return read_tables(v, [&](const toml::table& row, int line) {
           return read_tile(row, file, line, target.tiles.emplace_back());
         });
       }},
  };
  if (Status status = read_table(*table, file, readers); !status) return tl::unexpected(status.error());
  target.kind = kind == "cuda" ? TargetKind::cuda : kind == "hip" ? TargetKind::hip : TargetKind::cpu;
  return target;
}

const Result<std::vector<Target>>& targets() {
  static const Result<std::vector<Target>> all = []() -> Result<std::vector<Target>> {
    std::vector<Target> parsed;
    for (const EmbeddedFile& file : embedded_files()) {
      if (!file.path.starts_with("targets/")) continue;
      const Result<std::string> text = data_file(file.path);
      if (!text) return tl::unexpected(text.error());
      Result<Target> target = parse_target(*text, file.path);
      if (!target) return tl::unexpected(target.error());
      parsed.push_back(std::move(*target));
    }
    std::stable_sort(parsed.begin(), parsed.end(), [](const Target& a, const Target& b) {
      return a.kind != b.kind ? a.kind < b.kind : a.preference > b.preference;
    });
    return parsed;
  }();
  return all;
}

Result<const Target*> find_target(std::string_view name) {
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());
  std::vector<std::string_view> names;
  for (const Target& target : *all) {
    if (target.name == name) return &target;
    names.push_back(target.name);
  }
  return invalid(fmt::format("unknown target '{}'{}", name, suggestion(name, names)));
}

}  // namespace regard
