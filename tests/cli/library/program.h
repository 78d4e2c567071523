/* One forward call through a library's C ABI, checked by the library's fp64 oracle. Include it once for each
 * library, after defining N(name) and C(NAME), which turn a name of regard.h into the library's. */

/* Prints "<ok or wrong> <tier>", or "<status>: <sentence>". */
static void N(call)(const char* text) {
  N(regard_problem)* problem = NULL;
  N(regard_plan)* plan = NULL;
  N(regard_arguments) arguments = C(REGARD_ARGUMENTS_INIT);
  float* memory[4] = {NULL, NULL, NULL, NULL};
  char* json = NULL;
  char* report = NULL;
  void* workspace = NULL;
  N(regard_status) status = N(regard_problem_parse)(text, &problem);
  if (status == C(REGARD_OK)) status = N(regard_plan_create)(problem, NULL, &plan);
  for (int role = 0; role < 4 && status == C(REGARD_OK); ++role) {
    N(regard_use) use;
    N(regard_tensor)* tensor = &arguments.tensor[role];
    status = N(regard_problem_tensor)(problem, (N(regard_role))role, &use, tensor);
    if (status != C(REGARD_OK)) break;
    size_t count = 1;
    for (int i = 0; i < tensor->rank; ++i) count *= (size_t)tensor->shape[i];
    memory[role] = (float*)malloc(count * sizeof(float));
    for (size_t i = 0; i < count; ++i) memory[role][i] = (float)((i * 37 + (size_t)role) % 101) / 50 - 1;
    tensor->data = memory[role];
  }
  if (status == C(REGARD_OK)) status = N(regard_plan_prepare)(plan);
  if (status == C(REGARD_OK)) {
    int64_t bytes = N(regard_plan_workspace_bytes)(plan);
    status = N(regard_memory_allocate)(NULL, bytes, &workspace);
    if (status == C(REGARD_OK)) status = N(regard_plan_run)(plan, &arguments, workspace, bytes, NULL);
  }
  if (status == C(REGARD_OK)) status = N(regard_check)(problem, &arguments, &report);
  if (status == C(REGARD_OK)) status = N(regard_plan_json)(plan, &json);
  if (status == C(REGARD_OK)) {
    char tier[32] = "";
    const char* found = strstr(json, "\"tier\":");
    if (found != NULL) sscanf(found, "\"tier\":\"%31[^\"]", tier);
    printf("%s %s\n", strstr(report, "{\"ok\":true,") == report ? "ok" : "wrong", tier);
  } else {
    printf("%s: %s\n", N(regard_status_name)(status), N(regard_status_message)());
  }
  N(regard_string_free)(json);
  N(regard_string_free)(report);
  N(regard_memory_free)(workspace);
  N(regard_plan_destroy)(plan);
  N(regard_problem_destroy)(problem);
  for (int role = 0; role < 4; ++role) free(memory[role]);
}
#undef N
#undef C
