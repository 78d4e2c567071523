// Every problem that a manifest covers finds its kernels among those that are built. Tested with random
// manifests and random problems of their signatures, planned for any number of threads.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <unordered_set>

#include "aot/selection.h"
#include "plan/fallback.h"
#include "plan/plan.h"
#include "plan/recipe.h"
#include "plan/variant_text.h"
#include "problem/fields.h"
#include "problem/words.h"

namespace regard::aot {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t count) { return random_() % count; }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class List>
  auto of(const List& list) {
    return list[below(std::size(list))];
  }

  std::int64_t head_dim() {
    constexpr std::int64_t usual[] = {32, 64, 80, 96, 128, 192, 256, 512, 576};
    return one_in(3) ? 1 + static_cast<std::int64_t>(below(512)) : of(usual);
  }
  /// A small number, or a power of two or a neighbour of one.
  std::int64_t size() {
    constexpr std::int64_t few[] = {0, 1, 1, 2, 3, 4, 5, 7, 8};
    if (one_in(2)) return of(few);
    const std::int64_t power = std::int64_t{1} << below(one_in(10) ? 34 : 16);
    return std::max<std::int64_t>(power - 1 + static_cast<std::int64_t>(below(3)), 0);
  }
  template <class List>
  void shuffle(List& list) {
    std::ranges::shuffle(list, random_);
  }

 private:
  std::mt19937_64 random_;
};

/// The value of a signature's field as written in a manifest.
std::string in_toml(bool value) {
  return value ? "true" : "false";
}
std::string in_toml(std::int64_t value) {
  return fmt::to_string(value);
}
template <class Enum>
std::string in_toml(Enum value) {
  return fmt::format("\"{}\"", word(value));
}

/// Values of a field; if none, the manifest leaves it at its default.
std::vector<std::string> values_of(Draw& draw, Field field, bool, int count) {
  if (field == Field::paged) return {in_toml(true), in_toml(false)};  // no kernel takes the first
  if (field == Field::left_padding) return {};
  return count > 1 ? std::vector{in_toml(true), in_toml(false)} : std::vector{in_toml(draw.one_in(2))};
}
std::vector<std::string> values_of(Draw& draw, Field field, std::int64_t, int count) {
  if (field != Field::d && !(field == Field::dv && draw.one_in(4))) return {};
  std::vector<std::string> values;
  for (int i = 0; i < count; ++i) values.push_back(in_toml(draw.head_dim()));
  return values;
}
/// No kernel is made for a function.
std::vector<std::string> values_of(Draw&, Field, InternedText, int) {
  return {};
}
template <class Enum>
std::vector<std::string> values_of(Draw& draw, Field field, Enum, int count) {
  const bool follows = field == Field::out || field == Field::descale;  // free for 8-bit types only
  if (follows && !draw.one_in(8)) return {};
  constexpr Field of_caches[] = {Field::kv,        Field::slots, Field::positions, Field::table,
                                 Field::kv_layout, Field::rope,  Field::rope_type};
  if (std::ranges::find(of_caches, field) != std::end(of_caches)) return {};
  std::vector<std::string> values;
  for (int i = 0; i < count; ++i) {
    auto value = static_cast<Enum>(draw.below(words_of<Enum>().size()));
    if constexpr (std::is_same_v<Enum, Pass>) value = draw.one_in(3) ? Pass::bwd : Pass::fwd;
    values.push_back(in_toml(value));
  }
  return values;
}

/// A [[variants]] table of a few fields.
std::string random_table(Draw& draw) {
  std::string table = "[[variants]]\n";
  const Signature any;
  for_each_field(any, [&](Field field, const auto& value) {
    const bool often = field == Field::d || field == Field::mask || field == Field::dtype;
    if (field != Field::d && !draw.one_in(often ? 2 : 5)) return;
    std::vector<std::string> values = values_of(draw, field, value, 1 + static_cast<int>(draw.below(2)));
    if (values.empty()) return;
    draw.shuffle(values);
    table += fmt::format("{} = [{}]\n", info(field).name, fmt::join(values, ", "));
  });
  return table;
}

/// Sets one number of a problem's shape at random.
void randomize(Draw& draw, Field field, std::int64_t& value) {
  constexpr Field of_caches[] = {Field::paged, Field::snew,      Field::tnew, Field::cache,
                                 Field::pages, Field::rope_rows, Field::parts};
  if (std::ranges::find(of_caches, field) != std::end(of_caches)) return;
  if (field == Field::splits)
    value = draw.one_in(3) ? static_cast<std::int64_t>(draw.below(20)) : 0;
  else if (field == Field::window_left || field == Field::window_right)
    value = draw.size() - 1;
  else
    value = draw.size();
}
void randomize(Draw& draw, Field, OptionalScale& value) {
  constexpr OptionalScale some[] = {{}, {}, {}, 0.25, 0, -1};
  value = draw.of(some);
}
void randomize(Draw& draw, Field, double& value) {
  constexpr double some[] = {0.5, 0.125, 0.004, 30, 5e4};
  if (value != 0) value = draw.of(some);
}
void randomize(Draw&, Field, InternedText&) {}
void randomize(Draw&, Field, FunctionNumbers&) {}
template <class Value>
  requires std::is_enum_v<Value>
void randomize(Draw& draw, Field, Value& value) {
  if (draw.one_in(3)) value = static_cast<Value>(draw.below(words_of<Value>().size()));
}

/// A valid problem of the signature; most random draws give one.
Problem random_problem(Draw& draw, const Signature& of) {
  for (int i = 0; i < 1000; ++i) {
    Problem p = example_of(of);
    for_each_field(p, [&](Field field, auto& value) {
      if constexpr (!std::is_same_v<std::remove_reference_t<decltype(value)>, bool>)
        if (info(field).category != Category::SIGNATURE) randomize(draw, field, value);
    });
    p.hk = std::max<std::int64_t>(p.hk, 1);
    p.hq = p.hk * std::max<std::int64_t>(draw.size() % 200, 1);
    if (!p.varlen) p.tq = p.tk = 0;
    if (p.mask != Mask::window && p.mask != Mask::window_top_left)
      p.window_left = p.window_right = -1, p.sink_tokens = 0;
    if (signature(p) == of && validate(p)) return p;
  }
  return example_of(of);
}

/// The kernels of a target, as the texts of their keys.
using Texts = std::unordered_set<std::string>;

/// The first kernel of a plan that is not built; empty if there is none.
std::string missing(const Plan& planned, const Texts& built) {
  for (const Stage& stage : planned.stages)
    if (std::string text = print(stage.key); !built.contains(text)) return text;
  return {};
}

/// The same for all plans that a call can use: the best one, and a fallback for tensors it cannot read.
std::string missing(const Problem& problem, const Target& target, const PlanOptions& options,
                    const Texts& built, int& planned) {
  const Result<Plan> best = plan(problem, target, options);
  if (!best) return {};
  ++planned;
  if (std::string text = missing(*best, built); !text.empty()) return text;
  if (target.on_cpu()) return {};
  const std::optional<Plan> other = fallback_of(*best, options);
  return other ? missing(*other, built) : "";
}

const Target& random_target(Draw& draw) {
  const std::vector<Target>& all = targets().value();
  return all[draw.below(all.size())];
}

std::vector<const Signature*> signatures_of(const Manifest& manifest) {
  std::vector<const Signature*> list;
  for (const Manifest::Variants& variants : manifest.variants)
    for (const Variant& product : variants.products)
      for (const Signature& one : product.signatures) list.push_back(&one);
  return list;
}

std::string head(const Target& target) {
  return fmt::format("[build]\ntargets = [\"{}\"]\n", target.name);
}

/// A selection from random tables for a random target; empty if they make no sense or have no kernel.
struct Drawn {
  Drawn(Draw& draw, const std::string& tables)
      : target(random_target(draw)),
        text(head(target) + tables),
        manifest(parse_manifest(text, "random.toml")) {
    if (!manifest) return;
    const Result<Selection> selection = select(*manifest);
    if (!selection) return;
    for (const Selection::Kernel& kernel : selection->targets[0].kernels) built.insert(kernel.text);
  }

  const Target& target;
  std::string text;
  Result<Manifest> manifest;
  Texts built;
};

class CoveredProblems : public testing::Test {
 protected:
  /// Plans a problem as a call would, and expects that the plan's kernels are built.
  void expect_found(const Problem& problem, const Drawn& drawn, const std::string& family = "") {
    const PlanOptions options{.threads = 1 + static_cast<int>(draw_.below(draw_.one_in(2) ? 16 : 300)),
                              .family = family};
    const std::string lacks = missing(problem, drawn.target, options, drawn.built, planned_);
    EXPECT_EQ(lacks, "") << "seed " << seed_ << ": not built for '" << print(problem) << "', with "
                         << options.threads << " threads, of\n"
                         << drawn.text;
  }

  std::uint64_t seed_ = std::random_device{}();
  Draw draw_{seed_};
  int planned_ = 0;
};

TEST_F(CoveredProblems, OfProductsFindTheirKernels) {
  for (int i = 0; i < 500; ++i) {
    std::string tables = random_table(draw_);
    if (draw_.one_in(2)) tables += random_table(draw_);
    const Drawn drawn(draw_, tables);
    if (drawn.built.empty()) continue;
    const std::vector<const Signature*> signatures = signatures_of(*drawn.manifest);
    for (int j = 0; j < 40 && !HasFailure(); ++j)
      expect_found(random_problem(draw_, *draw_.of(signatures)), drawn);
  }
  EXPECT_GT(planned_, 2000);
}

// A table with `recipes` serves calls that ask for those recipes.
TEST_F(CoveredProblems, OfRecipesFindTheirKernelsWhereTheyAreAskedFor) {
  for (int i = 0; i < 300; ++i) {
    const std::string recipe(draw_.of(recipe_words()));
    const Drawn drawn(draw_, random_table(draw_) + fmt::format("recipes = [\"{}\"]\n", recipe));
    if (drawn.built.empty()) continue;
    const std::vector<const Signature*> signatures = signatures_of(*drawn.manifest);
    for (int j = 0; j < 20 && !HasFailure(); ++j)
      expect_found(random_problem(draw_, *draw_.of(signatures)), drawn, recipe);
  }
  EXPECT_GT(planned_, 100);
}

TEST_F(CoveredProblems, OfListsFindTheirKernels) {
  for (int i = 0; i < 500; ++i) {
    const Result<Manifest> some = parse_manifest(head(random_target(draw_)) + random_table(draw_), "");
    if (!some) continue;
    const Problem problem = random_problem(draw_, *draw_.of(signatures_of(*some)));
    const Drawn drawn(draw_, fmt::format("[[variants]]\nproblems = [\"{}\"]\n", print(problem)));
    for (int j = 0; j < 8 && !drawn.built.empty() && !HasFailure(); ++j) expect_found(problem, drawn);
  }
  EXPECT_GT(planned_, 500);
}

// The line that a refusal suggests adds exactly the kernels that the call lacks.
TEST_F(CoveredProblems, OfTheLineThatARefusalSuggestsFindTheirKernels) {
  for (int i = 0; i < 750; ++i) {
    const Result<Manifest> some = parse_manifest(head(random_target(draw_)) + random_table(draw_), "");
    if (!some) continue;
    const Problem problem = random_problem(draw_, *draw_.of(signatures_of(*some)));
    std::string members = as_variant(signature(problem));
    for (std::size_t at = 0; (at = members.find(", ", at)) != std::string::npos;)
      members.replace(at, 2, "\n");
    const Drawn drawn(draw_, "[[variants]]\n" + members + "\n");
    ASSERT_TRUE(drawn.manifest) << drawn.text << drawn.manifest.error().message;
    EXPECT_THAT(signatures_of(*drawn.manifest), testing::ElementsAre(testing::Pointee(signature(problem))));
    expect_found(problem, drawn);
  }
  EXPECT_GT(planned_, 200);
}

}  // namespace
}  // namespace regard::aot
