/* Attention from C, against an installed Regard:
 *
 *   cc attention.c $(pkg-config --cflags --libs regard) -lm -o attention && ./attention
 *
 * Two queries attend to four keys under a causal mask, planned once and run in our own workspace. */
#include <math.h>
#include <regard/regard.h>
#include <stdio.h>
#include <stdlib.h>

/* Every call returns a status; its sentence says what was wrong and what would work. */
static void require(regard_status status) {
  if (status == REGARD_OK) return;
  fprintf(stderr, "%s: %s\n", regard_status_name(status), regard_status_message());
  exit(1);
}

enum { batch = 1, heads = 1, queries = 2, keys = 4, dim = 8 };

int main(void) {
  /* 1. Describe the problem. */
  regard_problem* problem = NULL;
  require(regard_problem_parse("fwd fp32 b=1 h=1 sq=2 sk=4 d=8 mask=causal lse", &problem));

  /* 2. Plan it, and load or compile its kernels now rather than in the first run. */
  regard_plan* plan = NULL;
  require(regard_plan_create(problem, NULL, &plan));
  require(regard_plan_prepare(plan));

  /* 3. The tensors: our own plain memory. All keys are the same, so every visible one gets the same weight;
   * value j is j everywhere. Query 0 sees keys 0 to 2 and query 1 sees all four: the diagonal ends in the
   * bottom-right corner. */
  static float q[batch][queries][heads][dim], k[batch][keys][heads][dim], v[batch][keys][heads][dim];
  static float o[batch][queries][heads][dim], lse[batch][heads][queries];
  for (int i = 0; i < queries; ++i) {
    for (int c = 0; c < dim; ++c) q[0][i][0][c] = (float)(i + c);
  }
  for (int j = 0; j < keys; ++j) {
    for (int c = 0; c < dim; ++c) v[0][j][0][c] = (float)j;
  }

  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  const struct {
    regard_role role;
    void* data;
  } tensors[] = {{REGARD_Q, q}, {REGARD_K, k}, {REGARD_V, v}, {REGARD_O, o}, {REGARD_LSE, lse}};
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; ++i) {
    /* dtype, shape and strides as the problem expects them; a caller with another memory order sets the
     * strides. */
    regard_tensor* tensor = &arguments.tensor[tensors[i].role];
    require(regard_problem_tensor(problem, tensors[i].role, NULL, tensor));
    tensor->data = tensors[i].data;
  }

  /* 4. Run. Nothing is allocated here: the workspace is ours. */
  const int64_t bytes = regard_plan_workspace_bytes(plan);
  void* workspace = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + 64);
  require(regard_plan_run(plan, &arguments, workspace, bytes, NULL));

  /* 5. The mean of 0, 1, 2 is 1; of 0, 1, 2, 3 it is 1.5. LSE is the log of the number of visible keys. */
  printf("o = %g, %g   lse = %g, %g\n", o[0][0][0][0], o[0][1][0][0], lse[0][0][0], lse[0][0][1]);
  const int right = fabsf(o[0][0][0][0] - 1.0f) < 1e-5f && fabsf(o[0][1][0][0] - 1.5f) < 1e-5f &&
                    fabsf(lse[0][0][0] - logf(3.0f)) < 1e-5f && fabsf(lse[0][0][1] - logf(4.0f)) < 1e-5f;

  free(workspace);
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
  if (!right) fprintf(stderr, "expected o = 1, 1.5   lse = log 3, log 4\n");
  return right ? 0 : 1;
}
