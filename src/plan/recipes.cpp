#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/process_lifetime.h"
#include "base/text.h"
#include "plan/kernels/kernels.h"
#include "plan/recipe.h"
#include "plan/stage.h"

namespace regard {

std::span<const Recipe> recipes() {
  using enum Family;
  using enum Pass;
  return process_lifetime<[] {
    return std::vector<Recipe>{
        {"decode", split_kv, fwd, &cpu_decode, plan_cpu_decode, {&cpu_decode, &cpu_combine}},
        {"decode",
         split_kv,
         fwd,
         &portable_decode,
         plan_portable_decode,
         {&portable_decode, &portable_combine}},

        {"forward", forward, fwd, &sm90_forward, plan_sm90_forward, {&sm90_forward}},
        {"forward", forward, fwd, &sm90_latent, plan_sm90_latent, {&sm90_latent}},
        {"forward", forward, fwd, &portable_forward, plan_portable_forward, {&portable_forward}},
        {"forward", forward, fwd, &cpu_forward, plan_cpu_forward, {&cpu_forward}},

        {"forward_split",
         split_kv,
         fwd,
         &sm90_forward,
         plan_sm90_forward_split,
         {&sm90_forward, &portable_combine}},
        {"forward_split",
         split_kv,
         fwd,
         &sm90_latent,
         plan_sm90_latent_split,
         {&sm90_latent, &portable_combine}},
        {"forward_split",
         split_kv,
         fwd,
         &portable_forward,
         plan_portable_forward_split,
         {&portable_forward, &portable_combine}},
        {"forward_split", split_kv, fwd, &cpu_forward, plan_cpu_forward_split, {&cpu_forward, &cpu_combine}},

        {"generic", forward, fwd, &cpu_generic_forward, plan_cpu_generic_forward, {&cpu_generic_forward}},

        {"append", appending, append, &portable_append, plan_portable_append, {&portable_append}},
        {"append", appending, append, &cpu_append, plan_cpu_append, {&cpu_append}},

        {"merge", merging, merge, &portable_merge, plan_portable_merge, {&portable_merge}},
        {"merge", merging, merge, &cpu_combine, plan_cpu_merge, {&cpu_combine}},

        {"backward",
         backward,
         bwd,
         &sm90_backward,
         plan_sm90_backward,
         {&portable_backward_prepare, &sm90_backward, &portable_backward_convert}},
        {"backward",
         backward,
         bwd,
         &portable_backward,
         plan_portable_backward,
         {&portable_backward_prepare, &portable_backward, &portable_backward_convert}},
        {"backward",
         backward,
         bwd,
         &cpu_backward,
         plan_cpu_backward,
         {&cpu_backward_delta, &cpu_backward, &cpu_backward_convert}},
        {"generic", backward, bwd, &cpu_generic_backward, plan_cpu_generic_backward, {&cpu_generic_backward}},
    };
  }>();
}

std::span<const Kernel* const> kernels() {
  return process_lifetime<[] {
    std::vector<const Kernel*> list = {&portable_bits, &portable_ranges};  // which no recipe names
    for (const Recipe& recipe : recipes()) {
      for (const Kernel* kernel : recipe.stages) {
        if (std::find(list.begin(), list.end(), kernel) == list.end()) list.push_back(kernel);
      }
    }
    return list;
  }>();
}

std::span<const std::string_view> kernel_names() {
  return process_lifetime<[] {
    std::vector<std::string_view> names;
    for (const Kernel* kernel : kernels()) names.push_back(kernel->name);
    return names;
  }>();
}

const Kernel* find_kernel(std::string_view name) {
  for (const Kernel* kernel : kernels()) {
    if (kernel->name == name) return kernel;
  }
  return nullptr;
}

namespace {

bool has_tiles(const Recipe& recipe, const Target& target) {
  return std::ranges::any_of(
      target.tiles, [&](const Target::Tile& tile) { return tile.algorithm.kernel == recipe.main->name; });
}

}  // namespace

bool has_kernels(const Target& target) {
  return std::ranges::any_of(recipes(), [&](const Recipe& recipe) { return has_tiles(recipe, target); });
}

bool has_generic_kernel(Pass pass, const Target& target) {
  return std::ranges::any_of(recipes(), [&](const Recipe& recipe) {
    return is_generic(recipe) && recipe.pass == pass && has_tiles(recipe, target);
  });
}

std::string_view first_target_for(Pass pass) {
  const Result<std::vector<Target>>& all = targets();
  if (!all) return {};
  for (const Target& target : *all) {
    for (const Recipe& recipe : recipes()) {
      if (recipe.pass == pass && has_tiles(recipe, target)) return target.name;
    }
  }
  return {};
}

std::string stages_of(const Recipe& recipe) {
  std::string text;
  for (const Kernel* kernel : recipe.stages)
    text += fmt::format("{}{}", text.empty() ? "" : " + ", kernel->name);
  return text;
}

std::span<const std::string_view> recipe_words() {
  return process_lifetime<[] {
    std::vector<std::string_view> list;
    for (const Recipe& recipe : recipes()) {
      for (std::string_view name :
           {recipe.name, word(recipe.family), recipe.main->name, recipe.main->stem()}) {
        if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
      }
    }
    return list;
  }>();
}

bool matches(const Recipe& recipe, std::string_view name) {
  if (name == recipe.name || name == recipe.main->name || name == recipe.main->stem()) return true;
  // "forward" is also a family, and the generic kernel belongs to it: the narrower meaning takes precedence.
  const bool narrower =
      std::ranges::any_of(recipes(), [name](const Recipe& other) { return name == other.name; });
  return !narrower && name == word(recipe.family);
}

bool is_name_of(const Candidate& candidate, std::string_view name) {
  const auto ordered = [](std::string_view text) {
    std::vector<std::string_view> words = split(text, " ");
    const auto numbers = std::ranges::stable_partition(
        words, [](std::string_view word) { return word.find('=') == std::string_view::npos; });
    std::ranges::sort(numbers);
    return words;
  };
  const std::string own = name_of(candidate);
  return own == name || (own.size() == name.size() && ordered(own) == ordered(name));
}

bool matches(const Candidate& candidate, std::string_view words) {
  const auto fits = [&](std::string_view name) {
    const std::size_t equals = name.find('=');
    if (equals == std::string_view::npos) return matches(*candidate.recipe, name);
    const AlgorithmField field = find_algorithm_field(name.substr(0, equals));
    return field != nullptr && fmt::to_string(candidate.tile->algorithm.*field) == name.substr(equals + 1);
  };
  const std::vector<std::string_view> list = split(words, " ");
  return std::all_of(list.begin(), list.end(), fits) || is_name_of({candidate.recipe, candidate.tile}, words);
}

std::vector<Candidate> candidates(Pass pass, const Target& target) {
  std::vector<Candidate> list;
  for (const Recipe& recipe : recipes()) {
    if (recipe.pass != pass) continue;
    for (const Target::Tile& tile : target.tiles) {
      if (tile.algorithm.kernel == recipe.main->name) list.push_back({&recipe, &tile});
    }
  }
  return list;
}

std::string name_of(const Candidate& candidate) {
  std::string name = stages_of(*candidate.recipe);
  const Target::Tile& tile = *candidate.tile;
  if (!candidate.kernel().on_cpu()) name += fmt::format(" d={} dv={}", tile.max_d, tile.max_dv);
  std::vector<std::string> words;
  for (const auto& [field_name, field] : algorithm_fields())
    if (const std::int64_t value = tile.algorithm.*field; value != 0)
      words.push_back(fmt::format(" {}={}", field_name, value));
  std::ranges::sort(words);
  for (const std::string& word : words) name += word;
  if (candidate.splits > 0) name += fmt::format(" splits={}", candidate.splits);
  if (candidate.threads > 0) name += fmt::format(" threads={}", candidate.threads);
  return name;
}

Result<CandidateWords> parse_candidate_words(std::string_view text) {
  CandidateWords parsed;
  if (text.empty()) return parsed;  // as for most plans: nothing is allocated
  const auto take = [](std::string_view word, std::string_view name, auto& number) -> Status {
    if (number > 0) return invalid(fmt::format("{} is given twice", name.substr(0, name.size() - 1)));
    const std::string_view digits = word.substr(name.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc{} && end == digits.data() + digits.size() && number > 0) return {};
    return invalid(fmt::format("{} needs a positive whole number, e.g. {}4", in_quotes(word), name));
  };
  std::vector<std::string_view> others;
  for (const std::string_view word : split(text, " ")) {
    constexpr std::string_view splits = "splits=", threads = "threads=";
    if (!word.starts_with(splits) && !word.starts_with(threads)) {
      others.push_back(word);
      continue;
    }
    Status status =
        word.starts_with(splits) ? take(word, splits, parsed.splits) : take(word, threads, parsed.threads);
    if (!status) return tl::unexpected(status.error());
  }
  parsed.words = fmt::format("{}", fmt::join(others, " "));
  return parsed;
}

}  // namespace regard
