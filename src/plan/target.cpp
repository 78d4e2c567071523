#include "plan/target.h"

#include <algorithm>
#include <bit>

#include "base/amd_code.h"
#include "base/embedded.h"
#include "base/process_lifetime.h"
#include "base/text.h"
#include "plan/kernel.h"
#include "plan/strict_toml.h"

namespace regard {
namespace {

/// Larger than any kernel's numbers, and so small that the product of all numbers of a tile stays within 64
/// bits.
constexpr std::int64_t most_of_tile = 1 << 14;
/// A table of this many tiles is planned in milliseconds.
constexpr std::size_t most_tiles = 4096;

constexpr std::string_view kinds[] = {"cpu", "cuda", "hip"};

TargetKind kind_of(std::string_view word) {
  return word == "cuda" ? TargetKind::cuda : word == "hip" ? TargetKind::hip : TargetKind::cpu;
}

/// A table of numbers by the words of an enumeration, each read by `read`.
template <class Enum, class Read>
Status read_by_word(const TomlValue& value, std::string_view expected, std::map<Enum, double>& numbers,
                    Read read) {
  const toml::table* table = value.node.as_table();
  if (table == nullptr) return value.wrong(expected);
  std::map<std::string_view, TomlReader> readers;
  for (const WordInfo& info : words_of<Enum>()) {
    readers[info.word] = [&numbers, read, word = info.word](const TomlValue& v) {
      return read(v, numbers[*from_word<Enum>(word)]);
    };
  }
  return read_table(*table, value.file, readers);
}

Status read_rates(const TomlValue& value, std::map<DType, double>& rates) {
  return read_by_word(value, "a table of numbers by dtype, such as { fp32 = 100 }", rates,
                      [](const TomlValue& v, double& rate) { return v.real(rate); });
}

/// Shares between 0 and 1.
Status read_shares(const TomlValue& value, std::map<Pass, double>& shares) {
  return read_by_word(value, "a table of shares by pass, such as { fwd = 0.5 }", shares,
                      [](const TomlValue& v, double& share) -> Status {
                        if (Status status = v.real(share); !status) return status;
                        if (share > 0 && share <= 1) return {};
                        return v.wrong("above 0, and at most 1");
                      });
}

Status read_fragment(const toml::table& table, std::string_view file, Target::Fragment& fragment) {
  return read_table(table, file,
                    {{"dtypes", [&](const TomlValue& v) { return v.words(fragment.dtypes); }},
                     {"m", [&](const TomlValue& v) { return v.number(fragment.m, 1, most_of_tile); }},
                     {"n", [&](const TomlValue& v) { return v.number(fragment.n, 1, most_of_tile); }},
                     {"k", [&](const TomlValue& v) { return v.number(fragment.k, 1, most_of_tile); }}});
}

constexpr std::string_view needs_of_tile = "a tile needs kernel, dtypes, max_d and max_dv";

/// The kernel that a tile names.
Result<const Kernel*> kernel_of(const toml::table& table, std::string_view file, int line) {
  const toml::node* node = table.get("kernel");
  if (node == nullptr) return invalid(fmt::format("{}:{}: {}", file, line, needs_of_tile));
  std::string name;
  if (Status status = TomlValue{*node, file, "kernel"}.word(name, kernel_names()); !status)
    return tl::unexpected(status.error());
  return find_kernel(name);
}

std::vector<std::string_view> numbers_of(const Kernel& kernel) {
  std::vector<std::string_view> names;
  for (const std::span<const AlgorithmField> fields : {kernel.required, kernel.optional})
    for (const AlgorithmField field : fields) names.push_back(name_of(field));
  return names;
}

/// Readers of a tile's numbers: those that its kernel takes.
std::map<std::string_view, TomlReader> tile_readers(const Kernel& kernel, Target::Tile& tile) {
  std::map<std::string_view, TomlReader> readers = {
      {"max_d", [&](const TomlValue& v) { return v.number(tile.max_d, 1, most_of_tile); }},
      {"max_dv", [&](const TomlValue& v) { return v.number(tile.max_dv, 1, most_of_tile); }},
  };
  for (const std::string_view name : numbers_of(kernel))
    readers[name] = [&tile, field = find_algorithm_field(name)](const TomlValue& v) {
      return v.number(tile.algorithm.*field, 0, most_of_tile);
    };
  return readers;
}

/// Numbers of other kernels are not reported as unknown words.
Status takes_numbers(const Kernel& kernel, const toml::table& table, std::string_view file) {
  const std::vector<std::string_view> names = numbers_of(kernel);
  for (const auto& [key, node] : table) {
    if (find_algorithm_field(key.str()) == nullptr || std::ranges::find(names, key.str()) != names.end())
      continue;
    return invalid(fmt::format("{}:{}: {} takes no '{}'{}", file, node.source().begin.line, kernel.name,
                               key.str(), names.empty() ? "" : suggestion(key.str(), names)));
  }
  return {};
}

/// A tile for each row, or a single one; what precedes the rows applies to all of them.
Status read_tiles(const toml::table& table, std::string_view file, int line,
                  std::vector<Target::Tile>& tiles) {
  const Result<const Kernel*> kernel = kernel_of(table, file, line);
  if (!kernel) return tl::unexpected(kernel.error());
  if (Status status = takes_numbers(**kernel, table, file); !status) return status;
  Target::Tile common;
  common.algorithm.kernel = (*kernel)->name;
  common.line = line;
  const toml::table nothing_more;
  std::vector<std::pair<const toml::table*, int>> rows;
  std::map<std::string_view, TomlReader> readers = tile_readers(**kernel, common);
  readers["kernel"] = [](const TomlValue&) { return Status(); };  // read above
  readers["dtypes"] = [&](const TomlValue& v) { return v.words(common.dtypes); };
  readers["rows"] = [&](const TomlValue& v) -> Status {
    Status status = read_tables(v, [&](const toml::table& row, int row_line) -> Status {
      rows.emplace_back(&row, row_line);
      return {};
    });
    if (status && rows.empty()) return v.wrong("a row or more");
    return status;
  };
  if (Status status = read_table(table, file, readers); !status) return status;
  if (rows.empty()) rows.emplace_back(&nothing_more, line);
  for (const auto& [row, row_line] : rows) {
    Target::Tile tile = common;
    tile.line = row_line;
    if (Status status = takes_numbers(**kernel, *row, file); !status) return status;
    if (Status status = read_table(*row, file, tile_readers(**kernel, tile)); !status) return status;
    for (const auto& [name, value] : *row)
      if (table.contains(name.str()))
        return invalid(
            fmt::format("{}:{}: '{}' is given above the rows as well", file, row_line, name.str()));
    if (tiles.size() == most_tiles)
      return invalid(fmt::format("{}:{}: a target has at most {} tiles", file, row_line, most_tiles));
    tiles.push_back(std::move(tile));
  }
  return {};
}

/// The vector widths for which kernels can use a feature, as they name its instructions.
struct FeatureVectors {
  Feature feature;
  int least, most;
};
constexpr FeatureVectors feature_vectors[] = {
    {Feature::amx, 64, 64}, {Feature::avx512, 64, 64}, {Feature::avx2, 16, 32}, {Feature::neon, 16, 16}};

Status check_vectors(const Target& target, const toml::table& table, std::string_view file) {
  const auto wrong = [&](const std::string& expected) {
    const toml::node* given = table.get("vector_bytes");
    return invalid(fmt::format("{}:{}: 'vector_bytes' is {}, but must be {}", file,
                               given == nullptr ? 1 : given->source().begin.line, target.vector_bytes,
                               expected));
  };
  if (!std::has_single_bit(static_cast<unsigned>(target.vector_bytes))) return wrong("a power of two");
  for (const auto& [feature, least, most] : feature_vectors) {
    if (!target.has(feature)) continue;
    if (target.vector_bytes >= least && target.vector_bytes <= most) return {};
    return wrong(fmt::format("{} with the feature {}",
                             least == most ? std::to_string(most) : fmt::format("{} or {}", least, most),
                             word(feature)));
  }
  return {};
}

/// Features of the target's kind, which its file may name further down.
Status read_features(const TomlValue& value, Target& target) {
  std::vector<std::string> words;
  if (Status status = value.texts(words); !status) return status;
  const std::vector<Feature> known = features_of(target.kind);
  for (const std::string& name : words) {
    const auto feature = std::ranges::find(known, name, [](Feature one) { return word(one); });
    if (feature == known.end()) {
      std::vector<std::string_view> known_words;
      for (Feature one : known) known_words.push_back(word(one));
      return invalid(fmt::format("{}: {} is no feature of a {} target{}", value.where(), in_quotes(name),
                                 word(target.kind), suggestion(name, known_words)));
    }
    target.features.push_back(*feature);
  }
  return {};
}

/// What the schema alone cannot check: required keys, lists that must agree, and words that depend on the
/// kind.
Status check_target(Target& target, const toml::table& table, std::string_view file) {
  for (std::string_view key : {"doc", "kind", "dtypes", "preference"}) {
    if (!table.contains(key)) return invalid(fmt::format("{}:1: the key '{}' is missing", file, key));
  }
  if (target.on_gpu() && !table.contains("wave"))
    return invalid(fmt::format("{}:1: the key 'wave' is missing", file));
  if (const toml::node* features = table.get("features"))
    if (Status status = read_features({*features, file, "features"}, target); !status) return status;
  if (Status status = check_vectors(target, table, file); !status) return status;
  for (const Target::Tile& tile : target.tiles) {
    if (tile.dtypes.empty() || tile.max_d <= 0 || tile.max_dv <= 0)
      return invalid(fmt::format("{}:{}: {}", file, tile.line, needs_of_tile));
    for (DType dtype : tile.dtypes) {
      if (std::find(target.dtypes.begin(), target.dtypes.end(), dtype) != target.dtypes.end()) continue;
      return invalid(fmt::format("{}:{}: a tile for {}, which 'dtypes' of the target does not list", file,
                                 tile.line, word(dtype)));
    }
    const Kernel& kernel = *find_kernel(tile.algorithm.kernel);
    if (kernel.on_cpu() != target.on_cpu()) {
      return invalid(fmt::format("{}:{}: a tile for {}, which is no kernel for {} targets", file, tile.line,
                                 kernel.name, word(target.kind)));
    }
    for (const AlgorithmField field : kernel.required) {
      if (tile.algorithm.*field > 0) continue;
      return invalid(
          fmt::format("{}:{}: a tile for {} needs {}", file, tile.line, kernel.name, name_of(field)));
    }
  }
  return {};
}

}  // namespace

std::string_view word(TargetKind kind) {
  return kinds[static_cast<std::size_t>(kind)];
}

bool Target::has(Feature feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

Result<Target> parse_target(std::string_view text, std::string_view file) {
  const Result<toml::table> table = parse_toml(text, file);
  if (!table) return tl::unexpected(table.error());
  constexpr std::int64_t most_shared_memory = 1 << 26, most_registers = 1 << 26;
  Target target;
  target.name = stem_of(file);
  std::string kind;
  const std::map<std::string_view, TomlReader> readers = {
      {"doc", [&](const TomlValue& v) { return v.text(target.doc); }},
      {"kind", [&](const TomlValue& v) { return v.word(kind, kinds); }},
      {"dtypes", [&](const TomlValue& v) { return v.words(target.dtypes); }},
      {"features", [](const TomlValue&) -> Status { return {}; }},  // read once the kind is known
      {"options", [&](const TomlValue& v) { return v.texts(target.options); }},
      {"cpu_flags", [&](const TomlValue& v) { return v.texts(target.cpu_flags); }},
      {"slow_on", [&](const TomlValue& v) { return v.texts(target.slow_on); }},
      {"preference", [&](const TomlValue& v) { return v.number(target.preference, -1000, 1000); }},
      {"vector_bytes", [&](const TomlValue& v) { return v.number(target.vector_bytes, 16, 256); }},
      {"vector_registers", [&](const TomlValue& v) { return v.number(target.vector_registers, 8, 64); }},
      {"max_threads_per_block",
       [&](const TomlValue& v) { return v.number(target.max_threads_per_block, 1, most_of_tile); }},
      {"shared_memory",
       [&](const TomlValue& v) { return v.number(target.shared_memory, 1, most_shared_memory); }},
      {"registers", [&](const TomlValue& v) { return v.number(target.registers, 1, most_registers); }},
      {"wave", [&](const TomlValue& v) { return v.number(target.wave, 1, 128); }},
      {"dies", [&](const TomlValue& v) { return v.number(target.dies, 1, 64); }},
      {"units", [&](const TomlValue& v) { return v.number(target.units, 1, most_of_tile); }},
      {"gflops", [&](const TomlValue& v) { return read_rates(v, target.gflops); }},
      {"portable_share", [&](const TomlValue& v) { return read_shares(v, target.portable_share); }},
      {"gigabytes_per_second", [&](const TomlValue& v) { return v.real(target.gigabytes_per_second); }},
      {"fragments",
       [&](const TomlValue& v) {
         return read_tables(v, [&](const toml::table& row, int) {
           return read_fragment(row, file, target.fragments.emplace_back());
         });
       }},
      {"tiles",
       [&](const TomlValue& v) {
         return read_tables(v, [&](const toml::table& table, int line) {
           return read_tiles(table, file, line, target.tiles);
         });
       }},
  };
  if (Status status = read_table(*table, file, readers); !status) return tl::unexpected(status.error());
  target.kind = kind_of(kind);
  if (Status status = check_target(target, *table, file); !status) return tl::unexpected(status.error());
  return target;
}

const Result<std::vector<Target>>& targets() {
  return process_lifetime_unless_scarce<[]() -> Result<std::vector<Target>> {
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
  }>();
}

Result<const Target*> find_target(std::string_view name) {
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());
  std::vector<std::string_view> names;
  for (const Target& target : *all) {
    if (target.name == name) return &target;
    names.push_back(target.name);
  }
  // "gfx1101:xnack-", as ROCm writes a chip with settings that targets leave open.
  const std::string_view chip = name.substr(0, name.find(':'));
  const std::string_view instead =
      std::ranges::find(names, chip) != names.end() ? chip : amd::generic_target_of(chip);
  const std::string others =
      instead.empty() ? suggestion(name, names) : fmt::format("; kernels for it are those of '{}'", instead);
  return invalid(fmt::format("unknown target {}{}", in_quotes(name), others));
}

}  // namespace regard
