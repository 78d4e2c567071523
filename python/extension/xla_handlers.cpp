// A handler runs in an XLA thread, without Python's lock, and does not use Python. Inputs, results and
// workspace are buffers of the program.
#include "xla_handlers.h"

#include <new>

#include "xla_abi.h"
#include "xla_call.h"
#include "xla_failure.h"
#include "xla_plans.h"
#include "xla_workspace.h"

namespace nb = nanobind;

namespace regard::python {
namespace xla {
namespace {

constexpr const char* target_name = "regard_attention";

ErrorCode code_of(regard_status status) {
  switch (status) {
    case REGARD_INVALID:
      return ErrorCode::invalid_argument;
    case REGARD_REFUSED:
      return ErrorCode::unimplemented;
    case REGARD_NO_KERNEL:
      return ErrorCode::failed_precondition;
    case REGARD_NO_MEMORY:
      return ErrorCode::resource_exhausted;
    case REGARD_INTERRUPTED:
      return ErrorCode::cancelled;
    case REGARD_OK:
    case REGARD_INTERNAL:
      break;
  }
  return ErrorCode::internal;
}

Error* error(const Api& api, regard_status status, const char* sentence) {
  CreateError made{sizeof(CreateError), nullptr, sentence, code_of(status)};
  return api.create_error(&made);
}

/// Answers XLA's metadata query. It does not promise that it can be recorded into a graph (a trait of 1):
/// that would need a plan that was prepared on the device before the first call.
bool tells_about_itself(const Call& call) {
  for (Extension* extension = call.extensions; extension != nullptr; extension = extension->next) {
    if (extension->kind != ExtensionKind::metadata) continue;
    Metadata& metadata = *reinterpret_cast<MetadataExtension*>(extension)->metadata;
    metadata.version.major = major_version;
    metadata.version.minor = minor_version;
    metadata.traits = 0;
    return true;
  }
  return false;
}

/// Null, or what is wrong with this version of XLA; fields are only read if its structures are large enough
/// to have them.
const char* mismatch(const Call& call) {
  if (call.size < sizeof(Call) || call.api->size < sizeof(Api) || call.api->version.major != major_version)
    return "this version of XLA calls foreign functions in a way that Regard does not know; use a JAX that "
           "Regard's documentation names";
  return nullptr;
}

/// The targets of XLA's platforms with GPUs.
constexpr char cuda[] = "cuda", hip[] = "hip";

/// `gpu`: the target where the call names none; null on the host.
void run(const Call& call, const char* gpu, void* stream) {
  const bool on_gpu = gpu != nullptr;
  Asked asked = asked_by(call);
  if (on_gpu && asked.target.empty()) asked.target = gpu;
  const std::shared_ptr<const Planned> what = planned(asked);
  if ((regard_plan_on_gpu(what->plan) != 0) != on_gpu)
    throw Failure(REGARD_INVALID, std::string("target ") + regard_plan_target(what->plan) +
                                      " is not where the arrays are: leave target out, or move them");
  const regard_arguments arguments = arguments_of(call, *what);
  const Workspace workspace(call, *what, on_gpu);
  check(regard_plan_run(what->plan, &arguments, workspace.data(), workspace.bytes(), stream));
}

template <const char* gpu>
Error* handle(Call* call) noexcept {
  if (tells_about_itself(*call)) return nullptr;
  const Api& api = *call->api;
  if (const char* sentence = mismatch(*call)) return error(api, REGARD_INVALID, sentence);
  if (call->stage != Stage::execute) return nullptr;
  try {
    GetStream request{sizeof(GetStream), nullptr, call->context, nullptr};
    if constexpr (gpu != nullptr) {
      if (Error* failed = api.get_stream(&request)) return failed;
    }
    run(*call, gpu, request.stream);
    return nullptr;
  } catch (const Failure& failure) {
    return error(api, failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return error(api, REGARD_NO_MEMORY, "out of memory");
  } catch (const std::exception& unexpected) {
    return error(api, REGARD_INTERNAL, unexpected.what());
  }
}

nb::capsule capsule(Handler* handler) {
  return nb::capsule(reinterpret_cast<void*>(handler));
}

}  // namespace
}  // namespace xla

void declare_xla_handlers(nb::module_& module) {
  module.attr("XLA_TARGET") = xla::target_name;
  module.attr("XLA_WORKSPACE_ALIGNMENT") = xla::workspace_alignment;
  module.def(
      "xla_handlers",
      [] {
        nb::dict handlers;
        handlers["cpu"] = xla::capsule(&xla::handle<nullptr>);
        handlers["CUDA"] = xla::capsule(&xla::handle<xla::cuda>);
        handlers["ROCM"] = xla::capsule(&xla::handle<xla::hip>);
        return handlers;
      },
      nb::sig("def xla_handlers() -> dict[str, object]"),
      "What compiled programs of JAX call by the name XLA_TARGET, for each platform of XLA.");
  module.def("forget_xla_plans", &xla::forget_plans, nb::sig("def forget_xla_plans() -> None"));
}

}  // namespace regard::python
