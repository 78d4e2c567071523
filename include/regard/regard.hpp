// Regard in C++20: a thin wrapper over regard.h. Header-only; link with regard::regard.
//
//    regard::Problem problem("fwd bf16 b=2 h=16 s=1024 d=128 mask=causal");
//    regard::Arguments arguments;
//    arguments.set(REGARD_Q, regard::bf16(q, {2, 1024, 16, 128}));    // K, V, O likewise
//    regard::attention(problem, arguments);
//
// The tensors are views of the caller's memory: nothing is copied and nothing is owned. Failures throw
// regard::error, whose what() is one sentence: what was wrong and what would work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "regard/regard.h"

namespace regard {

/// The only exception type. `status()` distinguishes bad input, a refusal and a defect.
class error : public std::runtime_error {
 public:
  error(regard_status status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
  regard_status status() const noexcept { return status_; }

 private:
  regard_status status_;
};

namespace detail {

inline void require(regard_status status) {
  if (status != REGARD_OK) throw error(status, regard_status_message());
}

/// Text for the C ABI, which would silently end it at a NUL.
inline const char* c_text(const std::string& text, const char* name) {
  if (text.find('\0') != std::string::npos) {
    throw error(REGARD_INVALID,
                std::string(name) + " has the character NUL, where its text would end; leave it out");
  }
  return text.c_str();
}

/// The text of an object that the C ABI owns; null is that of a moved-from object.
inline std::string text_of(const char* text) {
  if (text == nullptr) throw error(REGARD_INVALID, "nothing is left in an object that was moved from");
  return text;
}

/// Owns a string returned by the C ABI.
struct String {
  char* text = nullptr;
  String() = default;
  String(const String&) = delete;
  String& operator=(const String&) = delete;
  ~String() { regard_string_free(text); }
  std::string copy() const { return text == nullptr ? std::string() : std::string(text); }
};

struct Destroy {
  void operator()(regard_problem* problem) const noexcept { regard_problem_destroy(problem); }
  void operator()(regard_plan* plan) const noexcept { regard_plan_destroy(plan); }
};

}  // namespace detail

// ---- tensors -------------------------------------------------------------------------------------------

using Tensor = regard_tensor;

/// A view of `data`. Strides are in elements; without them the tensor is contiguous, last dimension fastest.
inline Tensor tensor(void* data, regard_dtype dtype, std::initializer_list<std::int64_t> shape,
                     std::initializer_list<std::int64_t> strides = {}) {
  constexpr std::size_t most = sizeof(Tensor::shape) / sizeof(Tensor::shape[0]);
  if (shape.size() == 0 || shape.size() > most) {
    throw error(REGARD_INVALID, "a tensor has 1 to 4 dimensions, not " + std::to_string(shape.size()));
  }
  if (strides.size() != 0 && strides.size() != shape.size()) {
    throw error(REGARD_INVALID, "a tensor needs one stride for each of its " + std::to_string(shape.size()) +
                                    " dimensions, not " + std::to_string(strides.size()));
  }
  Tensor result{};
  result.data = data;
  result.dtype = dtype;
  result.rank = static_cast<std::int32_t>(shape.size());
  std::int64_t contiguous = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    result.shape[i] = shape.begin()[i];
    result.strides[i] = strides.size() == 0 ? contiguous : strides.begin()[i];
    contiguous *= shape.begin()[i];
  }
  return result;
}

/// Contiguous views by type. The 16-bit and 8-bit floats have no C++20 type of their own, so any pointer
/// works.
inline Tensor fp32(float* data, std::initializer_list<std::int64_t> shape) {
  return tensor(data, REGARD_FP32, shape);
}
inline Tensor bf16(void* data, std::initializer_list<std::int64_t> shape) {
  return tensor(data, REGARD_BF16, shape);
}
inline Tensor fp16(void* data, std::initializer_list<std::int64_t> shape) {
  return tensor(data, REGARD_FP16, shape);
}
inline Tensor int32(std::int32_t* data, std::initializer_list<std::int64_t> shape) {
  return tensor(data, REGARD_INT32, shape);
}

/// The tensors of one call, by role, and the dropout seed and offset.
class Arguments {
 public:
  Arguments() { c_.size = sizeof(regard_arguments); }
  Arguments& set(regard_role role, const Tensor& tensor) {
    c_.tensor[index_of(role)] = tensor;
    return *this;
  }
  Arguments& dropout(std::uint64_t seed, std::uint64_t offset = 0) {
    c_.seed = seed;
    c_.offset = offset;
    return *this;
  }
  const Tensor& operator[](regard_role role) const { return c_.tensor[index_of(role)]; }
  const regard_arguments* get() const noexcept { return &c_; }

 private:
  static std::size_t index_of(regard_role role) {
    if (role >= 0 && role < REGARD_ROLE_COUNT) return static_cast<std::size_t>(role);
    throw error(REGARD_INVALID, "role " + std::to_string(role) + " does not exist; roles are 0 to " +
                                    std::to_string(REGARD_ROLE_COUNT - 1));
  }
  regard_arguments c_{};
};

// ---- problem -------------------------------------------------------------------------------------------

/// The computation: one line of problem text (docs/problem.md), parsed and validated.
class Problem {
 public:
  explicit Problem(const std::string& text) {
    regard_problem* problem = nullptr;
    detail::require(regard_problem_parse(detail::c_text(text, "a problem"), &problem));
    handle_.reset(problem);
  }
  static Problem from_json(const std::string& json) {
    regard_problem* problem = nullptr;
    detail::require(regard_problem_from_json(detail::c_text(json, "json"), &problem));
    return Problem(problem);
  }

  /// Canonical; parses back to the same problem.
  std::string text() const { return detail::text_of(regard_problem_text(get())); }
  std::string json() const { return detail::text_of(regard_problem_json(get())); }
  double flops() const { return regard_problem_flops(get()); }  ///< visible pairs only

  /// The role of a tensor that the problem's functions read, by its name in the word `tensors`.
  regard_role captured(const std::string& name) const {
    regard_role role = REGARD_ROLE_COUNT;
    detail::require(regard_problem_captured(get(), detail::c_text(name, "name"), &role));
    return role;
  }

  /// How the problem uses a role, and the dtype, shape and strides it expects there (data is null).
  struct Expected {
    regard_use use = REGARD_UNUSED;
    Tensor tensor{};
  };
  Expected expected(regard_role role) const {
    Expected result;
    detail::require(regard_problem_tensor(get(), role, &result.use, &result.tensor));
    return result;
  }

  const regard_problem* get() const noexcept { return handle_.get(); }

 private:
  explicit Problem(regard_problem* problem) : handle_(problem) {}
  std::unique_ptr<regard_problem, detail::Destroy> handle_;
};

// ---- plan and run --------------------------------------------------------------------------------------

/// Where and how to run. The defaults let Regard choose.
struct Options {
  std::string target;        ///< e.g. "cpu-avx2"; empty: the best of this machine
  std::string family;        ///< only this family or kernel, e.g. "sm90_forward cluster=2"; empty: any
  std::int32_t threads = 0;  ///< 0: REGARD_THREADS or all cores
  std::string functions;  ///< score= and keep= by "words", "ranges", "bits" or "interpreted" only; empty: any

  /// Valid as long as this object.
  regard_plan_options c() const {
    regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
    options.target = target.empty() ? nullptr : detail::c_text(target, "target");
    options.family = family.empty() ? nullptr : detail::c_text(family, "family");
    options.threads = threads;
    options.functions = functions.empty() ? nullptr : detail::c_text(functions, "functions");
    return options;
  }
};

/// How a problem is solved. Make it once, run it often, from any thread.
class Plan {
 public:
  explicit Plan(const Problem& problem, const Options& options = {}) {
    const regard_plan_options c_options = options.c();
    regard_plan* plan = nullptr;
    detail::require(regard_plan_create(problem.get(), &c_options, &plan));
    handle_.reset(plan);
  }

  /// Gets every kernel now (embedded, cached or compiled), so that the first run does not have to.
  void prepare() { detail::require(regard_plan_prepare(get())); }
  std::string target() const { return detail::text_of(regard_plan_target(get())); }
  /// Whether tensors and workspace are in GPU memory.
  bool on_gpu() const { return regard_plan_on_gpu(get()) != 0; }
  std::int64_t workspace_bytes() const { return regard_plan_workspace_bytes(get()); }
  std::string json() const {
    detail::String json;
    detail::require(regard_plan_json(get(), &json.text));
    return json.copy();
  }

  /// Runs all stages in the caller's workspace, which has at least workspace_bytes() bytes and is 64-byte
  /// aligned.
  void run(const Arguments& arguments, void* workspace, std::int64_t bytes, void* stream = nullptr) const {
    detail::require(regard_plan_run(get(), arguments.get(), workspace, bytes, stream));
  }

  regard_plan* get() const noexcept { return handle_.get(); }

 private:
  std::unique_ptr<regard_plan, detail::Destroy> handle_;
};

/// One of the ways to compute a problem on a target, by its name in `explain`.
struct Candidate {
  std::string name;
  double seconds = 0;  ///< the cost model's estimate, or what was measured
};

/// A caller's own choice among the candidates, first the one that would be used without it: the name of one,
/// or an empty name for the first. An exception refuses the problem.
using Choice = std::function<std::string(const Problem&, const std::string& target,
                                         const std::vector<Candidate>& candidates)>;

namespace detail {

/// The function given to choose_by; calls that use it share it, as another thread may replace it meanwhile.
struct OwnChoice {
  std::mutex mutex;
  std::shared_ptr<const Choice> choice;

  static OwnChoice& here() {
    static OwnChoice own;
    return own;
  }
};

inline const char* ask_own_choice(void*, const regard_problem* problem, const char* target,
                                  const char* const* names, const double* seconds, std::int64_t count) {
  static thread_local std::string answer;
  answer.clear();
  try {
    std::shared_ptr<const Choice> choice;
    {
      const std::lock_guard lock(OwnChoice::here().mutex);
      choice = OwnChoice::here().choice;
    }
    if (choice == nullptr || !*choice) return nullptr;
    std::vector<Candidate> candidates;
    for (std::int64_t i = 0; i < count; ++i) candidates.push_back({names[i], seconds[i]});
    answer = (*choice)(Problem(text_of(regard_problem_text(problem))), target, candidates);
    return answer.empty() ? nullptr : answer.c_str();
  } catch (...) {
    return "";
  }
}

}  // namespace detail

/// Sets the function for plans that are made from now on, in all threads of the process (regard_choose_by);
/// an empty one removes it.
inline void choose_by(Choice choice) {
  const bool any = static_cast<bool>(choice);
  {
    const std::lock_guard lock(detail::OwnChoice::here().mutex);
    detail::OwnChoice::here().choice = std::make_shared<const Choice>(std::move(choice));
  }
  detail::require(regard_choose_by(any ? detail::ask_own_choice : nullptr, nullptr));
}

/// Plans follow the tuning records of this file from now on (regard_use_tuning); an empty path: no records.
inline void use_tuning(const std::string& path) {
  detail::require(regard_use_tuning(path.empty() ? nullptr : detail::c_text(path, "path")));
}

/// A line of such a file, from measurements on this machine; the first candidate is the one to be used.
inline std::string tuning_record(const Problem& problem, const Options& options,
                                 const std::vector<Candidate>& measured) {
  std::vector<const char*> names;
  std::vector<double> seconds;
  for (const Candidate& one : measured) {
    names.push_back(detail::c_text(one.name, "a candidate"));
    seconds.push_back(one.seconds);
  }
  const regard_plan_options c_options = options.c();
  detail::String record;
  detail::require(regard_tuning_record(problem.get(), &c_options, names.data(), seconds.data(),
                                       static_cast<std::int64_t>(names.size()), &record.text));
  return record.copy();
}

/// Memory of a target, aligned as kernels need it; an empty target means the host.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::int64_t bytes, const std::string& target = {}) : bytes_(bytes) {
    if (bytes < 0) throw error(REGARD_INVALID, "memory cannot have " + std::to_string(bytes) + " bytes");
    const char* const where = detail::c_text(target, "target");
    void* memory = nullptr;
    if (bytes > 0) detail::require(regard_memory_allocate(where, bytes, &memory));
    data_.reset(memory);
  }
  void* data() const noexcept { return data_.get(); }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  struct Free {
    void operator()(void* data) const noexcept { regard_memory_free(data); }
  };
  std::unique_ptr<void, Free> data_;
  std::int64_t bytes_ = 0;
};

/// Memory for Plan::run.
class Workspace : public Memory {
 public:
  explicit Workspace(const Plan& plan) : Memory(plan.workspace_bytes(), plan.target()) {}
  explicit Workspace(std::int64_t bytes, const std::string& target = {}) : Memory(bytes, target) {}
};

/// Copies between any two kinds of memory, and waits for the copy.
inline void copy(void* to, const void* from, std::int64_t bytes) {
  detail::require(regard_memory_copy(to, from, bytes));
}

/// Plan (remembered by Regard), workspace and run in one call.
inline void attention(const Problem& problem, const Arguments& arguments, const Options& options = {}) {
  const regard_plan_options c_options = options.c();
  detail::require(regard_attention(problem.get(), &c_options, arguments.get()));
}

/// Every candidate with its verdict; format is "text", "all" (refused ones are not grouped) or "json".
inline std::string explain(const Problem& problem, const Options& options = {},
                           const std::string& format = "text") {
  const regard_plan_options c_options = options.c();
  detail::String text;
  detail::require(regard_explain(problem.get(), &c_options, detail::c_text(format, "format"), &text.text));
  return text.copy();
}

/// Compares the outputs in `arguments` with the fp64 oracle: JSON, per output its errors, tolerance and "ok".
inline std::string check(const Problem& problem, const Arguments& arguments) {
  detail::String report;
  detail::require(regard_check(problem.get(), arguments.get(), &report.text));
  return report.copy();
}

/// Runs a saved call again: JSON with a verdict and the differences of each output (docs/saved-calls.md).
inline std::string rerun(const std::string& folder, const Options& options = {}, bool oracle = false) {
  const regard_plan_options c_options = options.c();
  detail::String report;
  detail::require(regard_rerun(detail::c_text(folder, "folder"), &c_options, oracle ? 1 : 0, &report.text));
  return report.copy();
}

// ---- what is here --------------------------------------------------------------------------------------

/// From now on kernels come from this bundle as well.
inline void add_bundle(const std::string& path) {
  detail::require(regard_bundle_add(detail::c_text(path, "path")));
}

/// Machine, targets, compilers, settings, counters: JSON.
inline std::string info() {
  detail::String json;
  detail::require(regard_info(&json.text));
  return json.copy();
}

/// Kernels by target and profile (empty: no filter): JSON.
inline std::string list(const std::string& target = {}, const std::string& profile = {}) {
  detail::String json;
  detail::require(regard_list(target.empty() ? nullptr : detail::c_text(target, "target"),
                              profile.empty() ? nullptr : detail::c_text(profile, "profile"), &json.text));
  return json.copy();
}

/// Gets a kernel, named by its text in `list`, into the cache: JSON with tier, seconds and resources.
inline std::string prepare_kernel(const std::string& kernel) {
  detail::String json;
  detail::require(regard_prepare_kernel(detail::c_text(kernel, "kernel"), &json.text));
  return json.copy();
}

/// How a manifest is built; empty members mean the defaults.
struct BuildOptions {
  std::string text;    ///< the manifest itself; the file is then not read
  std::string output;  ///< a folder
  std::int32_t jobs = 0, only = 0;
  std::function<void(const std::string& json)> progress;  ///< must not throw
};

/// Builds kernels ahead of time from a manifest: JSON of what was built or, with `only`, would be built.
inline std::string build_manifest(const std::string& manifest, const BuildOptions& options = {}) {
  regard_build_options c_options = REGARD_BUILD_OPTIONS_INIT;
  if (!options.text.empty()) c_options.text = detail::c_text(options.text, "text");
  if (!options.output.empty()) c_options.output = detail::c_text(options.output, "output");
  c_options.jobs = options.jobs;
  c_options.only = options.only;
  if (options.progress) {
    c_options.progress = [](void* context, const char* json) {
      static_cast<const BuildOptions*>(context)->progress(json);
    };
    c_options.context = const_cast<BuildOptions*>(&options);
  }
  detail::String json;
  detail::require(regard_build(detail::c_text(manifest, "manifest"), &c_options, &json.text));
  return json.copy();
}

/// The kernel cache: "list", "stat", "verify", "gc" or "clean"; JSON.
inline std::string cache(const std::string& verb) {
  detail::String json;
  detail::require(regard_cache(detail::c_text(verb, "verb"), &json.text));
  return json.copy();
}
/// Writes the cache's kernels into a bundle: JSON.
inline std::string export_cache(const std::string& bundle) {
  detail::String json;
  detail::require(regard_cache_export(detail::c_text(bundle, "bundle"), &json.text));
  return json.copy();
}
/// Reads a bundle's kernels into the cache: JSON.
inline std::string import_cache(const std::string& bundle) {
  detail::String json;
  detail::require(regard_cache_import(detail::c_text(bundle, "bundle"), &json.text));
  return json.copy();
}

/// Every word of problem text with its documentation: JSON.
inline std::string problem_words() {
  detail::String json;
  detail::require(regard_problem_words(&json.text));
  return json.copy();
}

}  // namespace regard
