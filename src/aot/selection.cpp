#include "aot/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "aot/asked_kernels.h"
#include "base/interruption.h"
#include "base/settings.h"
#include "base/text.h"
#include "plan/fallback.h"
#include "plan/function_words.h"
#include "plan/kernel_finder.h"
#include "plan/plan.h"

namespace regard::aot {
namespace {

/// Numbers of threads that a machine may have: enough of them that every number has one near it.
std::vector<int> numbers_of_threads() {
  std::vector<int> numbers = {1};
  for (int power = 2; power <= most_threads; power *= 2) {
    numbers.push_back(power);
    if (power + power / 2 <= most_threads) numbers.push_back(power + power / 2);
  }
  return numbers;
}

/// Why no plan is made for a signature.
std::string why_not(const Signature& signature, const Target& target, const Variant* of) {
  PlanOptions options;
  if (of != nullptr && of->recipes.size() == 1) options.family = of->recipes.front();
  const Result<Plan> planned = plan(example_of(signature), target, options);
  if (!planned) return planned.error().message;
  return fmt::format("'{}' has no kernels of these recipes on {}", print(signature), target.name);
}

/// Puts words in the place of functions, as plans do. Plans of a mask that becomes ranges or bits begin with
/// a stage that writes them: its problem is added to `masks`.
void put_words(Signature& one, std::vector<Problem>& masks) {
  if (one.score.empty() && one.keep.empty()) return;
  const Problem example = example_of(one);
  for (const WayInWords& way : ways_in_words) {
    const Result<FunctionWords> found = way.find(example);
    if (!found) continue;
    if (found->ranges || found->mask) masks.push_back(example);
    one = signature(found->problem);
    return;
  }
  // Only generic kernels take it.
}

class Selector {
 public:
  explicit Selector(const Manifest& manifest)
      : manifest_(manifest), kernels_(manifest.targets.size()), has_left_out_(manifest.exclude.size()) {}

  Result<Selection> select(Detail detail) {
    selection_.warnings = manifest_.warnings;
    for (const Manifest::Variants& variants : manifest_.variants) {
      if (Status status = add(variants); !status) return tl::unexpected(status.error());
    }
    for (std::size_t i = 0; i < manifest_.exclude.size(); ++i) {
      if (!has_left_out_[i])
        return wrong(manifest_.exclude[i].line,
                     "this [[exclude]] leaves nothing out, as no table asks for it");
    }
    for (const Manifest::Binary& binary : manifest_.binaries) {
      if (Status status = add(binary); !status) return tl::unexpected(status.error());
    }
    if (Status status = add_generic(); !status) return tl::unexpected(status.error());
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      Selection::OfTarget& of_target = selection_.targets.emplace_back();
      of_target.target = manifest_.targets[i];
      of_target.count = kernels_[i].count();
      if (detail == Detail::kernels)
        of_target.kernels = kernels_[i].list(numbers_, of_target.target->name, interrupted);
    }
    if (interrupted()) return interruption_of_selection();
    return std::move(selection_);
  }

 private:
  tl::unexpected<Error> wrong(int line, std::string_view sentence) const {
    return invalid(fmt::format("{}:{}: {}", printable(manifest_.file), line, sentence));
  }

  bool is_excluded(const Signature& signature) {
    bool excluded = false;
    for (std::size_t i = 0; i < manifest_.exclude.size(); ++i) {
      if (!manifest_.exclude[i].exclusion.holds_for(signature)) continue;
      has_left_out_[i] = excluded = true;
    }
    return excluded;
  }

  Status add(const Manifest::Variants& variants) {
    Selection::OfVariants& sum = selection_.variants.emplace_back();
    sum.line = variants.line;
    sum.what = variants.what;
    sum.counts.resize(manifest_.targets.size());
    bool something_is_left = false;
    if (Status status = add_products(variants, sum, something_is_left); !status) return status;
    if (Status status = add_problems(variants, sum, something_is_left); !status) return status;
    if (!something_is_left) return wrong(variants.line, "[[exclude]] leaves nothing of this table");
    const auto has_kernels = [](const Selection::Count& count) { return count.kernels > 0; };
    if (std::ranges::any_of(sum.counts, has_kernels)) return {};
    for (const Selection::Count& count : sum.counts) {
      if (!count.why.empty())
        return refused(fmt::format("{}:{}: none of the targets can do this: {}", printable(manifest_.file),
                                   variants.line, count.why));
    }
    return wrong(variants.line, "none of the targets is one of this record");
  }

  Status add_products(const Manifest::Variants& variants, Selection::OfVariants& sum,
                      bool& something_is_left) {
    std::vector<Variant> products = variants.products;
    SignatureSet asked;
    std::vector<Problem> masks;
    for (Variant& product : products) {
      std::erase_if(product.signatures, [this](const Signature& one) { return is_excluded(one); });
      asked.insert(product.signatures.begin(), product.signatures.end());
      for (Signature& one : product.signatures) put_words(one, masks);
    }
    if (asked.empty()) return {};
    something_is_left = true;
    KernelFinder finder(products, numbers_);
    for (std::size_t i = 0; i < manifest_.targets.size(); ++i) {
      const Target& target = *manifest_.targets[i];
      KernelFinder::Needed needed = finder.on(target, interrupted);
      if (interrupted()) return interruption_of_selection();
      std::vector<std::uint64_t>& numbers = needed.numbers;
      for (const Problem& mask : masks) {
        const Result<Plan> planned = plan(mask, target, {});
        if (is_scarce(planned)) return tl::unexpected(planned.error());
        if (!planned) continue;
        const std::uint64_t first = numbers_.number_of(planned->stages.front().key);
        if (std::ranges::find(numbers, first) == numbers.end()) numbers.push_back(first);
      }
      for (const std::uint64_t number : numbers) kernels_[i].ask(number, variants.line);
      Selection::Count& count = sum.counts[i];
      count.asked = asked.size();
      count.kernels = numbers.size();
      count.unserved = needed.unserved;
      if (needed.first_unserved) {
        const auto of = std::ranges::find_if(products, [&](const Variant& product) {
          return std::ranges::find(product.signatures, *needed.first_unserved) != product.signatures.end();
        });
        count.why = why_not(*needed.first_unserved, target, &*of);
      }
    }
    return {};
  }

  Status add_problems(const Manifest::Variants& variants, Selection::OfVariants& sum,
                      bool& something_is_left) {
    std::vector<std::set<std::uint64_t>> numbers(manifest_.targets.size());
    std::map<std::string, std::size_t> of_other_targets;
    for (const Manifest::Asked& asked : variants.problems) {
      if (interrupted()) return interruption_of_selection();
      if (is_excluded(signature(asked.problem))) continue;
      something_is_left = true;
      bool is_served = false, is_asked = false;
      std::string why;
      for (std::size_t i = 0; i < manifest_.targets.size(); ++i) {
        if (asked.target != nullptr && asked.target != manifest_.targets[i]) continue;
        is_asked = true;
        Selection::Count& count = sum.counts[i];
        ++count.asked;
        const Result<std::vector<KernelKey>> keys =
            keys_of_problem(asked.problem, *manifest_.targets[i], manifest_.tuning);
        if (is_scarce(keys)) return tl::unexpected(keys.error());
        if (!keys) {
          if (++count.unserved == 1) count.why = keys.error().message;
          if (why.empty()) why = keys.error().message;
          continue;
        }
        is_served = true;
        for (const KernelKey& key : *keys) {
          const std::uint64_t number = numbers_.number_of(key);
          numbers[i].insert(number);
          kernels_[i].ask(number, asked.line);
        }
      }
      if (is_asked)
        sum.problems.push_back(&asked);
      else
        ++of_other_targets[asked.target->name];
      if (is_asked && !is_served)
        return refused(fmt::format("{}: none of the targets can do this: {}", asked.where, why));
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) sum.counts[i].kernels += numbers[i].size();
    for (const auto& [target, count] : of_other_targets) {
      selection_.warnings.push_back(
          fmt::format("{}:{}: {} problem{} of the {} {} left out, as {} is none of the targets",
                      printable(manifest_.file), variants.line, count, count == 1 ? "" : "s", variants.what,
                      count == 1 ? "is" : "are", target));
    }
    return {};
  }

  /// A generated library has no generic kernels except those of its bundle.
  Status add_generic() {
    if (manifest_.undeclared != Undeclared::generic || !manifest_.makes_library()) return {};
    PlanOptions options;
    options.family = "generic";
    for (const char* text : {"fwd s=1 d=1", "bwd s=1 d=1"}) {
      const Result<Problem> problem = parse(text);
      if (!problem) return tl::unexpected(problem.error());
      for (std::size_t i = 0; i < manifest_.targets.size(); ++i) {
        if (manifest_.targets[i]->on_gpu()) continue;
        const Result<Plan> planned = plan(*problem, *manifest_.targets[i], options);
        if (!planned) return tl::unexpected(planned.error());
        for (const Stage& stage : planned->stages)
          kernels_[i].ask(numbers_.number_of(stage.key), manifest_.undeclared_line);
      }
    }
    return {};
  }

  Status add(const Manifest::Binary& binary) {
    const std::string text = print(binary.key);
    const auto it = std::ranges::find_if(
        manifest_.targets, [&](const Target* target) { return target->name == binary.key.target; });
    if (it == manifest_.targets.end())
      return wrong(binary.line, fmt::format("its key is of {}, which is no target of the manifest",
                                            in_quotes(binary.key.target)));
    if (!is_needed_by_some_plan(binary.key, **it)) {
      return wrong(binary.line,
                   fmt::format("no plan on {} asks for the kernel '{}', so that the file would never be "
                               "used; `regard list` has the keys that there are",
                               binary.key.target, text));
    }
    const auto target = static_cast<std::size_t>(it - manifest_.targets.begin());
    kernels_[target].take(numbers_.number_of(binary.key), binary);
    return {};
  }

  const Manifest& manifest_;
  KernelNumbers numbers_;
  std::vector<AskedKernels> kernels_;  // of each target
  std::vector<bool> has_left_out_;     // for each exclusion
  Selection selection_;
};

}  // namespace

tl::unexpected<Error> interruption_of_selection() {
  return fail(ErrorKind::interrupted, "interrupted while the kernels of the manifest were looked for");
}

std::size_t Selection::count() const {
  std::size_t sum = 0;
  for (const OfTarget& of_target : targets) sum += of_target.count;
  return sum;
}

Result<Selection> select(const Manifest& manifest, Detail detail) {
  return Selector(manifest).select(detail);
}

namespace {

/// What is planned for a problem: for each device and number of threads that records know, the nearest
/// record's candidate; without any, the cost model's choice for every number of threads.
std::vector<PlanOptions> options_of(const Problem& problem, const Target& target,
                                    std::span<const TunedProblem> tuning) {
  std::vector<PlanOptions> all;
  std::set<std::pair<std::string, std::int64_t>> known;
  if (!problem.batch_invariant) {
    for (const TunedProblem* one : nearest_records(tuning, problem, target.name)) {
      const TuningRecord& record = one->record;
      if (known.emplace(record.device, record.threads).second)
        all.push_back(
            {.threads = std::max(static_cast<int>(record.threads), 1), .recorded = record.candidate});
    }
  }
  if (!all.empty()) return all;
  for (const int threads : target.on_cpu() ? numbers_of_threads() : std::vector{1})
    all.push_back({.threads = threads});
  return all;
}

}  // namespace

Result<std::vector<KernelKey>> keys_of_problem(const Problem& problem, const Target& target,
                                               std::span<const TunedProblem> tuning) {
  std::vector<KernelKey> keys;
  const auto take = [&keys](const Plan& planned) {
    for (const Stage& stage : planned.stages)
      if (std::ranges::find(keys, stage.key) == keys.end()) keys.push_back(stage.key);
  };
  for (const PlanOptions& options : options_of(problem, target, tuning)) {
    const Result<Plan> planned = plan(problem, target, options);
    if (!planned) return tl::unexpected(planned.error());
    take(*planned);
    if (target.on_cpu()) continue;  // there the generic kernels are part of the library
    if (const std::optional<Plan> other = fallback_of(*planned, options)) take(*other);
  }
  return keys;
}

}  // namespace regard::aot
