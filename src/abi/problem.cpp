#include "abi/handles.h"
#include "problem/document.h"
#include "problem/functions.h"
#include "problem/tensors.h"

using namespace regard;         // NOLINT: the C ABI's implementation
using namespace regard::c_api;  // NOLINT

namespace {

regard_status make_problem(Result<Problem> parsed, regard_problem** out) {
  if (!parsed) return report(parsed.error());
  if (Status status = validate(*parsed); !status) return report(status.error());
  *out = new regard_problem{*parsed, print(*parsed), to_json(*parsed)};
  return REGARD_OK;
}

}  // namespace

regard_status regard_problem_parse(const char* text, regard_problem** problem) {
  return guarded([&] {
    if (text == nullptr) return report(null_argument("text").value());
    if (problem == nullptr) return report(null_argument("problem").value());
    return make_problem(parse(text), problem);
  });
}

regard_status regard_problem_from_json(const char* json, regard_problem** problem) {
  return guarded([&] {
    if (json == nullptr) return report(null_argument("json").value());
    if (problem == nullptr) return report(null_argument("problem").value());
    return make_problem(problem_from_json(json), problem);
  });
}

void regard_problem_destroy(regard_problem* problem) {
  in_call([&] { delete problem; });
}

const char* regard_problem_text(const regard_problem* problem) {
  return problem == nullptr ? nullptr : problem->text.c_str();
}

const char* regard_problem_json(const regard_problem* problem) {
  return problem == nullptr ? nullptr : problem->json.c_str();
}

double regard_problem_flops(const regard_problem* problem) {
  return in_call([&] { return problem == nullptr ? 0 : flops(problem->problem); });
}

regard_status regard_problem_tensor(const regard_problem* problem, regard_role role, regard_use* use,
                                    regard_tensor* expected) {
  return guarded([&] {
    if (problem == nullptr) return report(null_argument("problem").value());
    if (role < 0 || role >= REGARD_ROLE_COUNT) {
      return report(REGARD_INVALID,
                    fmt::format("role {} does not exist; roles are 0 to {}", static_cast<int>(role),
                                static_cast<int>(REGARD_ROLE_COUNT) - 1));
    }
    const TensorSpec spec = tensor_spec(problem->problem, role);
    if (use != nullptr) *use = spec.use;
    if (expected != nullptr) {
      *expected = {};
      expected->dtype = spec.dtype;
      expected->rank = static_cast<std::int32_t>(spec.shape.size());
      std::copy(spec.shape.begin(), spec.shape.end(), expected->shape);
      std::copy(spec.strides.begin(), spec.strides.end(), expected->strides);
    }
    return REGARD_OK;
  });
}

regard_status regard_problem_captured(const regard_problem* problem, const char* name, regard_role* role) {
  return guarded([&] {
    if (problem == nullptr) return report(null_argument("problem").value());
    if (name == nullptr) return report(null_argument("name").value());
    if (role == nullptr) return report(null_argument("role").value());
    const Result<int> index = captured_index(problem->problem, name);
    if (!index) return report(index.error());
    *role = captured(*index);
    return REGARD_OK;
  });
}

const char* regard_role_name(regard_role role) {
  if (role < 0 || role >= REGARD_ROLE_COUNT) return nullptr;
  return role_name(role).data();
}

regard_status regard_problem_words(char** json) {
  return guarded([&] {
    if (json == nullptr) return report(null_argument("json").value());
    return give(word_help_json(), json);
  });
}
