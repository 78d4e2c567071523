#include <cstdlib>

#include "abi/handles.h"
#include "base/text.h"
#include "engine/describe.h"
#include "engine/explain.h"
#include "engine/host_copy.h"
#include "engine/machine.h"
#include "engine/memory.h"
#include "engine/rerun.h"
#include "engine/run.h"
#include "engine/run_gpu.h"
#include "engine/save_calls.h"
#include "engine/verify.h"
#include "oracle/check.h"
#include "problem/tensors.h"

using namespace regard;         // NOLINT: the C ABI's implementation
using namespace regard::c_api;  // NOLINT

namespace {

Status run_in_default_stream(PreparedPlan& plan, const regard_arguments& given, void* workspace,
                             std::int64_t bytes) {
  return saves_calls() ? run_and_save(plan, given, workspace, bytes) : run(plan, given, workspace, bytes);
}

}  // namespace

regard_status regard_plan_create(const regard_problem* problem, const regard_plan_options* options,
                                 regard_plan** plan) {
  return guarded([&] {
    if (problem == nullptr) return report(null_argument("problem").value());
    if (plan == nullptr) return report(null_argument("plan").value());
    const Result<EngineOptions> chosen = engine_options(options);
    if (!chosen) return report(chosen.error());
    Result<SharedPlan> prepared = prepared_plan(problem->problem, *chosen);
    if (!prepared) return report(prepared.error());
    *plan = handle_of(std::move(*prepared));
    return REGARD_OK;
  });
}

void regard_plan_destroy(regard_plan* plan) {
  if (plan == nullptr) return;
  in_call([&] { const SharedPlan given_back = SharedPlan::taken(plan_of(plan)); });
}

regard_status regard_plan_prepare(regard_plan* plan) {
  return guarded([&] {
    if (plan == nullptr) return report(null_argument("plan").value());
    const auto ready = plan_of(plan)->ready();
    if (!ready) return report(ready.error());
    if (plan_of(plan)->best().target->on_cpu()) return REGARD_OK;
    const Result<const gpu::Device*> device = gpu::current_device(backend_of(*plan_of(plan)->best().target));
    if (!device) return REGARD_OK;  // compiled and cached for a machine that has such a device
    const Status loaded = load_on_gpu(**ready, **device);
    return loaded ? REGARD_OK : report(loaded.error());
  });
}

const char* regard_plan_target(const regard_plan* plan) {
  return plan == nullptr ? nullptr : plan_of(plan)->best().target->name.c_str();
}

int32_t regard_plan_on_gpu(const regard_plan* plan) {
  return plan != nullptr && plan_of(plan)->best().target->on_gpu();
}

int64_t regard_plan_workspace_bytes(const regard_plan* plan) {
  return plan == nullptr ? 0 : plan_of(plan)->workspace_bytes();
}

regard_status regard_plan_json(const regard_plan* plan, char** json) {
  return guarded([&] {
    if (plan == nullptr) return report(null_argument("plan").value());
    if (json == nullptr) return report(null_argument("json").value());
    return give(describe(*plan_of(plan)), json);
  });
}

regard_status regard_explain(const regard_problem* problem, const regard_plan_options* options,
                             const char* format, char** explanation) {
  return guarded([&] {
    if (problem == nullptr) return report(null_argument("problem").value());
    if (explanation == nullptr) return report(null_argument("explanation").value());
    const std::string_view requested = format == nullptr ? "text" : format;
    if (requested != "text" && requested != "all" && requested != "json") {
      return report(REGARD_INVALID,
                    fmt::format("format {} does not exist; use text, all or json", in_quotes(requested)));
    }
    const Result<EngineOptions> chosen = engine_options(options);
    if (!chosen) return report(chosen.error());
    const Result<PlanRequest> request = plan_request(problem->problem, *chosen);
    if (!request) return report(request.error());
    Explanation explained;
    const Result<Plan> made = plan(problem->problem, *request->target, request->options, &explained);
    if (!made && explained.problem.empty()) return report(made.error());
    explained.record = request->recorded.record;
    explained.notes.insert(explained.notes.begin(), request->recorded.notes.begin(),
                           request->recorded.notes.end());
    const std::string text = describe(explained, requested);
    return give(requested == "json" ? text : printable(text, Newlines::kept), explanation);
  });
}

regard_status regard_plan_run(const regard_plan* plan, const regard_arguments* arguments, void* workspace,
                              int64_t workspace_bytes, void* stream) {
  return guarded([&] {
    if (plan == nullptr) return report(null_argument("plan").value());
    regard_arguments storage;
    const Result<const regard_arguments*> known = known_arguments(arguments, storage);
    if (!known) return report(known.error());
    const Status status = saves_calls()
                              ? run_and_save(*plan_of(plan), **known, workspace, workspace_bytes, stream)
                              : run(*plan_of(plan), **known, workspace, workspace_bytes, stream);
    if (!status) return report(status.error());
    if (Status status = verify_if_asked(*plan_of(plan), **known); !status) return report(status.error());
    return REGARD_OK;
  });
}

regard_status regard_attention(const regard_problem* problem, const regard_plan_options* options,
                               const regard_arguments* arguments) {
  return guarded([&] {
    if (problem == nullptr) return report(null_argument("problem").value());
    regard_arguments storage;
    const Result<const regard_arguments*> known = known_arguments(arguments, storage);
    if (!known) return report(known.error());
    const Result<EngineOptions> chosen = engine_options(options);
    if (!chosen) return report(chosen.error());
    const Result<SharedPlan> prepared = prepared_plan(problem->problem, *chosen);
    if (!prepared) return report(prepared.error());
    const std::int64_t bytes = (*prepared)->workspace_bytes();
    if ((*prepared)->best().target->on_cpu()) {
      const Result<AlignedMemory> workspace = aligned_memory(bytes);
      if (!workspace) return report(workspace.error());
      if (Status status = run_in_default_stream(**prepared, **known, workspace->get(), bytes); !status)
        return report(status.error());
    } else {
      const std::optional<regard_role> leading = leading_tensor((*prepared)->specs(), **known);
      if (!leading) {  // tensors are missing, or there is nothing to compute
        const Status status = check_tensors(problem->problem, (*prepared)->specs(), **known);
        return status ? REGARD_OK : report(status.error());
      }
      const gpu::Backend& backend = backend_of(*(*prepared)->best().target);
      const Result<const gpu::Device*> device =
          gpu::device_of(backend, (*known)->tensor[*leading].data, regard_role_name(*leading));
      if (!device) return report(device.error());
      const gpu::OrderedMemory workspace(**device, bytes, nullptr);
      if (!workspace.status()) return report(workspace.status().error());
      if (Status status = run_in_default_stream(**prepared, **known, workspace.data(), bytes); !status)
        return report(status.error());
    }
    if (Status status = verify_if_asked(**prepared, **known); !status) return report(status.error());
    return REGARD_OK;
  });
}

regard_status regard_rerun(const char* folder, const regard_plan_options* options, int32_t oracle,
                           char** report_json) {
  return guarded([&] {
    if (folder == nullptr) return report(null_argument("folder").value());
    if (report_json == nullptr) return report(null_argument("report").value());
    if (oracle != 0 && oracle != 1)
      return report(REGARD_INVALID, fmt::format("oracle={} is neither 0 nor 1", oracle));
    const Result<EngineOptions> chosen = engine_options(options);
    if (!chosen) return report(chosen.error());
    const Result<std::string> found = rerun(folder, *chosen, oracle == 1);
    return found ? give(*found, report_json) : report(found.error());
  });
}

regard_status regard_check(const regard_problem* problem, const regard_arguments* arguments,
                           char** report_json) {
  return guarded([&] {
    if (problem == nullptr) return report(null_argument("problem").value());
    if (report_json == nullptr) return report(null_argument("report").value());
    regard_arguments storage;
    const Result<const regard_arguments*> known = known_arguments(arguments, storage);
    if (!known) return report(known.error());
    if (Status status = check_tensors(problem->problem, **known); !status) return report(status.error());
    const Result<HostCopy> there = host_copy(**known);
    if (!there) return report(there.error());
    if (Status status = check_host_values(problem->problem, there->arguments); !status)
      return report(status.error());
    const Result<int> threads = thread_count(0);
    if (!threads) return report(threads.error());
    const Result<std::string> checked = oracle::check_report(problem->problem, there->arguments, *threads);
    if (!checked) return report(checked.error());
    return give(*checked, report_json);
  });
}
