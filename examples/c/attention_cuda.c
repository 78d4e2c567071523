/* Attention on an NVIDIA GPU from C, against an installed Regard and the CUDA runtime: make attention_cuda
 *
 * Decoding: 8 query heads share 2 heads of 512 keys, in our own stream. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <regard/regard.h>
#include <stdio.h>
#include <stdlib.h>

static void require(regard_status status) {
  if (status == REGARD_OK) return;
  fprintf(stderr, "%s: %s\n", regard_status_name(status), regard_status_message());
  exit(1);
}

static void require_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  exit(1);
}

enum { query_heads = 8, heads = 2, keys = 512, dim = 64 };

static void* on_gpu(const void* data, size_t bytes) {
  void* memory = NULL;
  require_cuda(cudaMalloc(&memory, bytes));
  require_cuda(cudaMemcpy(memory, data, bytes, cudaMemcpyHostToDevice));
  return memory;
}

int main(void) {
  /* 1. Plan for the current device. The kernels are loaded or compiled here, not in the first run. */
  regard_problem* problem = NULL;
  require(regard_problem_parse("fwd fp32 b=1 hq=8 hk=2 sq=1 sk=512 d=64", &problem));
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = "cuda";
  regard_plan* plan = NULL;
  require(regard_plan_create(problem, &options, &plan));
  require(regard_plan_prepare(plan));

  /* 2. GPU memory: every key gets the same weight, and value j is j everywhere. */
  static float q[query_heads][dim], k[keys][heads][dim], v[keys][heads][dim], o[query_heads][dim];
  for (int j = 0; j < keys; ++j)
    for (int h = 0; h < heads; ++h)
      for (int c = 0; c < dim; ++c) v[j][h][c] = (float)j;

  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  const struct {
    regard_role role;
    void* data;
    size_t bytes;
  } tensors[] = {
      {REGARD_Q, q, sizeof q}, {REGARD_K, k, sizeof k}, {REGARD_V, v, sizeof v}, {REGARD_O, o, sizeof o}};
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; ++i) {
    regard_tensor* tensor = &arguments.tensor[tensors[i].role];
    require(regard_problem_tensor(problem, tensors[i].role, NULL, tensor));
    tensor->data = on_gpu(tensors[i].data, tensors[i].bytes);
  }
  const int64_t bytes = regard_plan_workspace_bytes(plan);
  void* workspace = NULL;
  if (bytes > 0) require_cuda(cudaMalloc(&workspace, (size_t)bytes));

  /* 3. The call returns once the work is enqueued in the stream. */
  cudaStream_t stream;
  require_cuda(cudaStreamCreate(&stream));
  require(regard_plan_run(plan, &arguments, workspace, bytes, stream));
  require_cuda(cudaStreamSynchronize(stream));

  require_cuda(cudaMemcpy(o, arguments.tensor[REGARD_O].data, sizeof o, cudaMemcpyDeviceToHost));
  printf("%s on %s: o = %g\n", regard_problem_text(problem), regard_plan_target(plan), (double)o[0][0]);
  const int right = fabsf(o[0][0] - 255.5F) < 1e-3F;

  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; ++i)
    cudaFree(arguments.tensor[tensors[i].role].data);
  cudaFree(workspace);
  cudaStreamDestroy(stream);
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
  return right ? 0 : 1;
}
