// The overhead of a call: finding the plan of a problem seen before, and launching a prepared plan. The
// problems have one query row and no key, so that their kernels do next to nothing.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#include "regard/regard.h"

namespace {

void check(regard_status status) {
  if (status == REGARD_OK) return;
  std::fprintf(stderr, "%s\n", regard_status_message());
  std::exit(1);
}

struct Call {
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  alignas(64) float numbers[4][64] = {};
  void* workspace = nullptr;
  std::int64_t bytes = 0;

  Call() {
    options.threads = 1;
    check(regard_problem_parse("fwd fp32 b=1 h=1 sq=1 sk=0 d=64 lse", &problem));
    check(regard_plan_create(problem, &options, &plan));
    check(regard_plan_prepare(plan));
    bytes = regard_plan_workspace_bytes(plan);
    workspace = std::aligned_alloc(64, static_cast<std::size_t>(bytes + 63) / 64 * 64);
    const regard_role rows[] = {REGARD_Q, REGARD_K, REGARD_V, REGARD_O};
    for (int i = 0; i < 4; ++i) {
      const std::int64_t length = i == 0 || i == 3 ? 1 : 0;
      arguments.tensor[rows[i]] = {numbers[i], REGARD_FP32, 4, {1, length, 1, 64}, {64, 64, 64, 1}};
    }
    arguments.tensor[REGARD_LSE] = {&lse, REGARD_FP32, 3, {1, 1, 1}, {1, 1, 1}};
  }
  ~Call() {
    std::free(workspace);
    regard_plan_destroy(plan);
    regard_problem_destroy(problem);
  }
  float lse = 0;
};

void plan_seen_before(benchmark::State& state) {
  const Call call;
  for (auto _ : state) {
    regard_plan* plan = nullptr;
    check(regard_plan_create(call.problem, &call.options, &plan));
    benchmark::DoNotOptimize(plan);
    regard_plan_destroy(plan);
  }
}
BENCHMARK(plan_seen_before);

void run_prepared(benchmark::State& state) {
  const Call call;
  for (auto _ : state)
    check(regard_plan_run(call.plan, &call.arguments, call.workspace, call.bytes, nullptr));
}
BENCHMARK(run_prepared);

void plan_and_run(benchmark::State& state) {
  const Call call;
  for (auto _ : state) {
    regard_plan* plan = nullptr;
    check(regard_plan_create(call.problem, &call.options, &plan));
    check(regard_plan_run(plan, &call.arguments, call.workspace, call.bytes, nullptr));
    regard_plan_destroy(plan);
  }
}
BENCHMARK(plan_and_run);

}  // namespace

BENCHMARK_MAIN();
