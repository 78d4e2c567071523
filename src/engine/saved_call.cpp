#include "engine/saved_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "arrays/safetensors.h"
#include "base/atomic_file.h"
#include "base/digest.h"
#include "base/json.h"
#include "compile/render.h"
#include "device/cpu/cpu.h"
#include "engine/machine.h"
#include "plan/function_words.h"
#include "plan/recipe.h"

namespace regard {
namespace {

bool is_given(const TensorSpecs& specs, const regard_arguments& given, int role) {
  return (specs.used >> role & 1) != 0 && given.tensor[role].data != nullptr;
}
bool is_read(regard_use use) {
  return use == REGARD_INPUT || use == REGARD_OPTIONAL_INPUT || use == REGARD_INPUT_OUTPUT;
}

std::int64_t bytes_in_file(const regard_tensor& tensor) {
  return elements_of(tensor) * static_cast<std::int64_t>(bytes_of(tensor.dtype));
}

/// The tensors of these roles as one safetensors file.
Status write_tensors(const std::string& path, const regard_arguments& tensors, Roles roles) {
  std::vector<NamedArray> arrays;
  Status status = for_each(roles, [&](regard_role role) -> Status {
    const regard_tensor& tensor = tensors.tensor[role];
    arrays.push_back({std::string(role_name(role)),
                      {element_of(tensor.dtype), {tensor.shape, tensor.shape + tensor.rank}, {}},
                      {}});
    return {};
  });
  Result<AtomicFile> file = AtomicFile::make(path);
  if (!file) return tl::unexpected(file.error());
  const std::string header = safetensors_header(arrays);
  if (status) status = file->write(std::as_bytes(std::span(header)));
  if (!status) return status;
  status = for_each(roles, [&](regard_role role) { return file->write(row_major(tensors.tensor[role])); });
  return status ? file->publish() : status;
}

void write_machine(JsonWriter& json, const PreparedPlan& plan) {
  json.object([&] {
    json.member("cores", cpu::usable_cores());
    json.member("cpu", cpu_model());
    const Target& target = *plan.best().target;
    if (target.on_cpu()) return;
    const Result<const gpu::Device*> device = gpu::current_device(backend_of(target));
    if (!device) return;
    json.member("chip", (*device)->chip);
    json.member("gpu", (*device)->name);
  });
}

/// By what a plan that interprets or compiles functions computes them.
FunctionsBy functions_by(const Plan& plan) {
  if (plan.words == nullptr) return FunctionsBy::interpreted;
  return plan.words->ranges ? FunctionsBy::ranges : FunctionsBy::bits;
}

std::string description(const CallToSave& call, const std::vector<UsedKernel>& kernels) {
  const PreparedPlan::Ready* const ready = call.plan.answering();
  const Plan& plan = ready != nullptr ? *ready->plan : call.plan.best();
  const TensorSpecs& specs = call.plan.specs();
  JsonWriter json;
  json.object([&] {
    json.member("format", 1);
    json.member("version", REGARD_VERSION);
    json.member("problem", print(call.plan.problem()));
    // As text: JSON's numbers are not exact beyond 2^53.
    json.member("seed", std::to_string(call.given.seed));
    json.member("offset", std::to_string(call.given.offset));
    json.member("why", call.why);
    if (call.found) {
      json.member("found", [&] {
        json.object([&] {
          json.member("output", role_name(call.found->role));
          json.member("index", std::span(call.found->at).first(static_cast<std::size_t>(call.found->rank)));
        });
      });
    }
    if (!call.error.empty()) json.member("error", call.error);
    json.member("target", plan.target->name);
    json.member("family", family_of(plan));
    if (plan.steps != nullptr) json.member("functions", word(functions_by(plan)));
    json.member("threads", plan.target->on_cpu() ? plan.workers : 0);
    json.member("kernels", [&] {
      json.list([&] {
        for (const UsedKernel& kernel : kernels) {
          json.object([&] {
            json.member("kernel", kernel.key);
            json.member("digest", kernel.digest);
            json.member("grid", kernel.grid);
          });
        }
      });
    });
    json.member("plan", [&] { json.raw(to_json(plan)); });
    json.member("machine", [&] { write_machine(json, call.plan); });
    json.member("strides", [&] {
      json.object([&] {
        for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
          const regard_tensor& tensor = call.given.tensor[role];
          if (is_given(specs, call.given, role))
            json.member(role_name(static_cast<regard_role>(role)),
                        std::span(tensor.strides, static_cast<std::size_t>(tensor.rank)));
        }
      });
    });
  });
  return json.take() + "\n";
}

}  // namespace

Result<std::vector<UsedKernel>> used_kernels(const PreparedPlan& plan) {
  std::vector<UsedKernel> used;
  const PreparedPlan::Ready* const ready = plan.answering();
  if (ready == nullptr) return used;
  for (const Stage& stage : ready->plan->stages) {
    const Result<Rendered> rendered = render(stage.key);
    if (!rendered) return tl::unexpected(rendered.error());
    used.push_back({print(stage.key), sha256(rendered->source).hex(), stage.grid});
  }
  return used;
}

std::string family_of(const Plan& plan) {
  for (const Recipe& recipe : recipes()) {
    if (recipe.family != plan.family || recipe.pass != plan.problem.pass) continue;
    const auto main = std::ranges::find(plan.stages, recipe.main, &Stage::kernel);
    if (main == plan.stages.end()) continue;
    std::string words = fmt::format("{} {}", recipe.name, recipe.main->name);
    for (const auto& [name, field] : algorithm_fields())
      words += fmt::format(" {}={}", name, main->key.algorithm.*field);
    if (plan.asked_splits > 0) words += fmt::format(" splits={}", plan.asked_splits);
    return words;
  }
  return {};
}

std::int64_t bytes_to_save(const TensorSpecs& specs, const regard_arguments& given) {
  std::int64_t bytes = 0;
  for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
    if (!is_given(specs, given, role)) continue;
    const regard_use use = specs.of[role].use;
    bytes += bytes_in_file(given.tensor[role]) * (is_read(use) + is_written(use));
  }
  return bytes;
}

Status write_saved_call(const std::string& folder, const CallToSave& call) {
  const TensorSpecs& specs = call.plan.specs();
  Roles read = 0, written = 0;
  for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
    if (!is_given(specs, call.given, role)) continue;
    if (is_read(specs.of[role].use)) read |= Roles{1} << role;
    if (is_written(specs.of[role].use)) written |= Roles{1} << role;
  }
  const Result<std::vector<UsedKernel>> kernels = used_kernels(call.plan);
  if (!kernels) return tl::unexpected(kernels.error());
  if (Status status = write_tensors(folder + "/inputs.safetensors", call.before, read); !status)
    return status;
  if (call.after != nullptr) {
    if (Status status = write_tensors(folder + "/outputs.safetensors", *call.after, written); !status)
      return status;
  }
  return write_atomic_file(folder + "/call.json", description(call, *kernels));
}

}  // namespace regard
