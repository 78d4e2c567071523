#include "failures/scenarios.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace regard::test {
namespace {

/// One thread, as what oneTBB does without memory is not Regard's to test (docs/failures.md).
regard_plan_options one_thread() {
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.threads = 1;
  return options;
}

template <class Make>  // not a std::function, which allocates
regard_status with_json(const Make& make) {
  char* json = nullptr;
  const regard_status status = make(&json);
  if (status == REGARD_OK && (json == nullptr || *json == '\0')) return REGARD_INTERNAL;
  regard_string_free(json);
  return status;
}

/// Makes a plan for the call, uses it and destroys it.
template <class Use>
regard_status with_plan(const Call& call, const Use& use) {
  const regard_plan_options options = one_thread();
  regard_plan* plan = nullptr;
  regard_status status = regard_plan_create(call.problem, &options, &plan);
  if (status == REGARD_OK) status = use(plan);
  regard_plan_destroy(plan);
  return status;
}

regard_status attention(Call& call) {
  const regard_plan_options options = one_thread();
  call.clear();
  const regard_status status = regard_attention(call.problem, &options, &call.arguments);
  return status == REGARD_OK && !call.wrote() ? REGARD_INTERNAL : status;
}

constexpr const char* json_of_problem =
    R"({"pass":"fwd","dtype":"bf16","hq":2,"hk":2,"sq":8,"sk":8,"d":64,"scale":0.5})";

}  // namespace

std::vector<Scenario> scenarios(Call& fwd, Call& bwd, Call& cached) {
  constexpr std::int64_t workspace_bytes = 1 << 22;
  void* const workspace = std::aligned_alloc(64, workspace_bytes);
  const auto parsed = [](regard_status status, regard_problem* problem) {
    regard_problem_destroy(problem);
    return status;
  };
  std::vector<Scenario> list = {
      {"parse",
       [=] {
         regard_problem* problem = nullptr;
         const regard_status status = regard_problem_parse(forward_problem, &problem);
         return parsed(status, problem);
       }},
      {"parse_wrong",
       [=] {
         regard_problem* problem = nullptr;
         const regard_status status = regard_problem_parse("fwd fp32 maks=causal", &problem);
         return parsed(status == REGARD_INVALID ? REGARD_OK : status, problem);
       }},
      {"from_json",
       [=] {
         regard_problem* problem = nullptr;
         const regard_status status = regard_problem_from_json(json_of_problem, &problem);
         return parsed(status, problem);
       }},
      {"from_json_wrong",
       [=] {
         regard_problem* problem = nullptr;
         const regard_status status = regard_problem_from_json(R"({"pass": [[[)", &problem);
         return parsed(status == REGARD_INVALID ? REGARD_OK : status, problem);
       }},
      {"tensor",
       [&fwd] {
         regard_use use;
         regard_tensor tensor;
         return regard_problem_tensor(fwd.problem, REGARD_Q, &use, &tensor);
       }},
      {"words", [] { return with_json(regard_problem_words); }},
      {"plan_create", [&fwd] { return with_plan(fwd, [](regard_plan*) { return REGARD_OK; }); }},
      {"plan_prepare", [&fwd] { return with_plan(fwd, regard_plan_prepare); }},
      {"plan_json",
       [&fwd] {
         return with_plan(fwd, [](regard_plan* plan) {
           return with_json([plan](char** json) { return regard_plan_json(plan, json); });
         });
       }},
      {"plan_run",
       [&fwd, workspace] {
         fwd.clear();
         const regard_status status = with_plan(fwd, [&](regard_plan* plan) {
           return regard_plan_run(plan, &fwd.arguments, workspace, workspace_bytes, nullptr);
         });
         return status == REGARD_OK && !fwd.wrote() ? REGARD_INTERNAL : status;
       }},
      {"forward", [&fwd] { return attention(fwd); }},
      {"backward", [&bwd] { return attention(bwd); }},
      {"cached", [&cached] { return attention(cached); }},
      {"check",
       [&fwd] {
         return with_json([&](char** json) { return regard_check(fwd.problem, &fwd.arguments, json); });
       }},
      {"rerun_wrong",
       [] {
         const regard_status status =
             with_json([](char** json) { return regard_rerun("/dev/null/none", nullptr, 0, json); });
         return status == REGARD_INVALID ? REGARD_OK : status;
       }},
      {"info", [] { return with_json(regard_info); }},
      {"list", [] { return with_json([](char** json) { return regard_list(nullptr, nullptr, json); }); }},
      {"list_profile",
       [] { return with_json([](char** json) { return regard_list("cpu-generic", "default", json); }); }},
      {"prepare_kernel",
       [] {
         return with_json([](char** json) {
           return regard_prepare_kernel("cpu-generic cpu_generic_forward | any fwd", json);
         });
       }},
      {"build",
       [] {
         regard_build_options options = REGARD_BUILD_OPTIONS_INIT;
         options.text =
             "[build]\ntargets = [\"cpu-generic\"]\n[[variants]]\nd = [64, 128]\n[[variants]]\nprofile = "
             "\"default\"\n"
             "[[variants]]\nproblems = [\"fwd bf16 s=64 d=64\"]\n[[exclude]]\nd = 128\n";
         options.only = 2;
         return with_json([&](char** json) { return regard_build("te.toml", &options, json); });
       }},
      {"package_folders",
       [] {
         const char* const folder = "/dev/null/none";
         return regard_package_folders(&folder, 1);
       }},
      {"memory",
       [] {
         void* memory = nullptr;
         const regard_status status = regard_memory_allocate("cpu-generic", 100, &memory);
         return status == REGARD_OK ? regard_memory_free(memory) : status;
       }},
  };
  for (const char* format : {"text", "all", "json"}) {
    list.push_back({format, [&fwd, format] {
                      const regard_plan_options options = one_thread();
                      return with_json(
                          [&](char** text) { return regard_explain(fwd.problem, &options, format, text); });
                    }});
  }
  for (const char* verb : {"list", "stat", "verify", "gc", "clean"})
    list.push_back(
        {verb, [verb] { return with_json([verb](char** json) { return regard_cache(verb, json); }); }});
  return list;
}

/// Runs `body` in a forked child; returns what went wrong, or how the child died.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string wrong = body();
    if (write(ends[1], wrong.data(), wrong.size()) < 0) _exit(3);
    _exit(0);
  }
  close(ends[1]);
  std::string wrong;
  char block[4096];
  for (ssize_t count; (count = read(ends[0], block, sizeof block)) > 0;)
    wrong.append(block, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) wrong += "died of signal " + std::to_string(WTERMSIG(status));
  return wrong;
}

std::string fill_cache() {
  return in_child([]() -> std::string {
    unsetenv("REGARD_CXX");
    const Call call(cached_problem);
    return with_plan(call, regard_plan_prepare) == REGARD_OK ? "" : regard_status_message();
  });
}

std::size_t scenario_count() {
  return std::stoul(in_child([] {
    Call fwd(forward_problem), bwd(backward_problem), cached(cached_problem);
    return std::to_string(scenarios(fwd, bwd, cached).size());
  }));
}

std::string with_scenario(std::size_t index, const std::function<std::string(const Scenario&)>& body) {
  return in_child([&] {
    Call fwd(forward_problem), bwd(backward_problem), cached(cached_problem);
    return body(scenarios(fwd, bwd, cached)[index]);
  });
}

std::string defect(const char* when, regard_status status) {
  if (status == REGARD_OK) return "";
  const char* const sentence = regard_status_message();
  if (status != REGARD_INTERNAL && *sentence != '\0') return "";
  return std::string(when) + ": " + regard_status_name(status) + ": " + sentence;
}

}  // namespace regard::test
