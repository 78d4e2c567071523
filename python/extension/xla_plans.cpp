#include "xla_plans.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "xla_failure.h"

namespace regard::python::xla {
namespace {

constexpr std::size_t most_known = 1024;

constinit std::atomic<int> times_forgotten{0};

std::vector<regard_role> roles_of(std::string_view names) {
  std::vector<regard_role> roles;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    roles.push_back(role_from_name(names.substr(0, end)));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return roles;
}

std::string key_of(const Asked& asked) {
  std::string key;
  for (const std::string_view part :
       {asked.problem, asked.inputs, asked.outputs, asked.target, asked.family, asked.functions})
    key.append(part).push_back('\n');
  return key.append(std::to_string(asked.threads));
}

}  // namespace

Planned::Planned(const Asked& asked) : inputs(roles_of(asked.inputs)), outputs(roles_of(asked.outputs)) {
  const std::string text(asked.problem), target(asked.target), family(asked.family),
      functions(asked.functions);
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  if (!target.empty()) options.target = target.c_str();
  if (!family.empty()) options.family = family.c_str();
  if (!functions.empty()) options.functions = functions.c_str();
  options.threads = asked.threads;
  check(regard_problem_parse(text.c_str(), &problem));
  const regard_status status = regard_plan_create(problem, &options, &plan);
  if (status != REGARD_OK) {
    Failure failure(status, regard_status_message());
    regard_problem_destroy(problem);
    throw failure;
  }
  order = axis_order(layout_of(regard_problem_text(problem)));
}

Planned::~Planned() {
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
}

std::shared_ptr<const Planned> planned(const Asked& asked) {
  static auto& lock = *new std::mutex;  // never destroyed: XLA's threads may outlive static objects
  static auto& known = *new std::unordered_map<std::string, std::shared_ptr<const Planned>>;
  static int of_known = 0;  // times_forgotten when `known` was last emptied
  std::string key = key_of(asked);
  const std::lock_guard held(lock);
  const int now = times_forgotten.load(std::memory_order_acquire);
  if (std::exchange(of_known, now) != now) known.clear();
  if (const auto found = known.find(key); found != known.end()) return found->second;
  auto made = std::make_shared<const Planned>(asked);
  if (known.size() >= most_known) known.clear();
  known.emplace(std::move(key), made);
  return made;
}

void forget_plans() {
  times_forgotten.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace regard::python::xla
