// Host time of a call on an NVIDIA GPU and of the driver's own launch of an empty kernel, in turns. Prints
// one line of JSON: medians in nanoseconds.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "regard/regard.h"

namespace {

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "launch: %s\n", why.c_str());
  std::exit(1);
}

void need(regard_status status) {
  if (status != REGARD_OK) stop(regard_status_message());
}

/// A function of the driver; the types are those of cuda.h.
template <class Function>
Function* driver_function(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) stop(std::string("the NVIDIA driver has no ") + name);
  return reinterpret_cast<Function*>(found);
}

/// Makes the primary context, which the library also uses, current: a call then has no context to switch.
void use_primary_context() {
  void* context = nullptr;
  const bool done = driver_function<int(unsigned)>("cuInit")(0) == 0 &&
                    driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0) == 0 &&
                    driver_function<int(void*)>("cuCtxSetCurrent")(context) == 0;
  if (!done) stop("no CUDA device");
}

/// The launch configuration of a kernel.
struct Shape {
  int parameter_bytes = 8;
  unsigned threads = 128, shared_bytes = 0;
  bool overlaps = false;  ///< begins before the previous kernel ends, as Regard's do
};

/// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id = 0, padding = 0;
  union {
    char bytes[64] = {};
    int value;
  };
};
struct LaunchConfiguration {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

/// An empty kernel of one block.
class Empty {
 public:
  explicit Empty(const Shape& shape)
      : shape_(shape), parameter_(static_cast<std::size_t>(shape.parameter_bytes)) {
    const std::string source =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry empty(.param .align 8 .b8 p[" +
        std::to_string(shape.parameter_bytes) + "]) { ret; }\n";
    const auto load = driver_function<int(void**, const void*)>("cuModuleLoadData");
    const auto get = driver_function<int(void**, void*, const char*)>("cuModuleGetFunction");
    void* module = nullptr;
    const auto set = driver_function<int(void*, int, int)>("cuFuncSetAttribute");
    constexpr int most_dynamic_shared_bytes = 8;  // of CUfunction_attribute
    if (load(&module, source.c_str()) != 0 || get(&function_, module, "empty") != 0 ||
        set(function_, most_dynamic_shared_bytes, static_cast<int>(shape.shared_bytes)) != 0)
      stop("no empty kernel");
  }

  void launch() {
    void* parameters[] = {parameter_.data()};
    if (!shape_.overlaps) {
      if (launch_(function_, 1, 1, 1, shape_.threads, 1, 1, shape_.shared_bytes, nullptr, parameters,
                  nullptr) != 0)
        stop("no launch");
      return;
    }
    LaunchAttribute overlap{programmatic_stream_serialization, 0, {}};
    overlap.value = 1;
    const LaunchConfiguration configuration{
        {1, 1, 1}, {shape_.threads, 1, 1}, shape_.shared_bytes, nullptr, &overlap, 1};
    if (launch_extended_(&configuration, function_, parameters, nullptr) != 0) stop("no overlapping launch");
  }

 private:
  using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                     void**, void**);
  using LaunchExtended = int(const LaunchConfiguration*, void*, void**, void**);
  static constexpr int programmatic_stream_serialization = 6;  // of CUlaunchAttributeID
  Shape shape_;
  Launch* launch_ = driver_function<Launch>("cuLaunchKernel");
  LaunchExtended* launch_extended_ = driver_function<LaunchExtended>("cuLaunchKernelEx");
  void* function_ = nullptr;
  std::vector<char> parameter_;
};

/// A plan with its tensors in GPU memory.
class Call {
 public:
  explicit Call(const char* text) {
    need(regard_problem_parse(text, &problem_));
    regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
    options.target = "cuda";
    need(regard_plan_create(problem_, &options, &plan_));
    for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
      regard_use use = REGARD_UNUSED;
      regard_tensor& tensor = arguments_.tensor[role];
      need(regard_problem_tensor(problem_, static_cast<regard_role>(role), &use, &tensor));
      if (use != REGARD_UNUSED && use != REGARD_OPTIONAL_INPUT)
        need(regard_memory_allocate("cuda", 16 << 20, &tensor.data));
    }
    need(regard_memory_allocate("cuda", std::max<std::int64_t>(bytes(), 1), &workspace_));
    need(regard_plan_prepare(plan_));
  }

  void run() { need(regard_plan_run(plan_, &arguments_, workspace_, bytes(), nullptr)); }

 private:
  std::int64_t bytes() const { return regard_plan_workspace_bytes(plan_); }

  regard_problem* problem_ = nullptr;
  regard_plan* plan_ = nullptr;
  regard_arguments arguments_ = REGARD_ARGUMENTS_INIT;
  void* workspace_ = nullptr;
};

/// Few enough that the driver's queue never fills: a full queue would measure the GPU's time.
constexpr int calls = 200;

template <class Body>
double nanoseconds(Body&& body) {
  const auto wait = driver_function<int()>("cuCtxSynchronize");
  wait();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) body();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  wait();
  return taken.count() / calls;
}

double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + of.size() / 2, of.end());
  return of[of.size() / 2];
}

}  // namespace

int main() {
  use_primary_context();
  const Shape hopper_shape{1200, 384, 200 << 10, false};  // about what Hopper's kernel is launched with
  Shape overlapping_shape = hopper_shape;
  overlapping_shape.overlaps = true;
  Empty empty({}), full(hopper_shape), overlapping(overlapping_shape);
  Call hopper("fwd bf16 b=1 h=1 s=64 d=64"), portable("fwd fp32 b=1 h=1 s=64 d=64");
  Call counted("fwd bf16 b=1 h=80 s=256 d=64 mask=causal");  // takes work from a counter
  struct Contestant {
    const char* name;
    std::function<void()> call;
    std::vector<double> samples;
  };
  std::array<Contestant, 6> contestants{{{"driver", [&] { empty.launch(); }, {}},
                                         {"driver with as much", [&] { full.launch(); }, {}},
                                         {"driver overlapping", [&] { overlapping.launch(); }, {}},
                                         {"sm90_forward", [&] { hopper.run(); }, {}},
                                         {"sm90_forward counted", [&] { counted.run(); }, {}},
                                         {"portable_forward", [&] { portable.run(); }, {}}}};
  for (int round = 0; round < 41; ++round)
    for (Contestant& one : contestants) one.samples.push_back(nanoseconds(one.call));
  std::printf(R"({"cell": "host ns per call from C", "host_ns": {)");
  for (Contestant& one : contestants)
    std::printf("%s\"%s\": %.0f", &one == &contestants.front() ? "" : ", ", one.name, median(one.samples));
  std::printf("}}\n");
  return 0;
}
