// A problem, its plan, its kernels, a run, and the verdict of the oracle.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    const regard::Problem problem("fwd fp32 b=2 hq=8 hk=2 s=128 d=64 mask=causal");
    regard::Arguments arguments;
    std::vector<regard::Memory> memory;  // on the target
    for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_V, REGARD_O}) {
      regard::Tensor tensor = problem.expected(role).tensor;  // type, shape and strides
      const auto numbers = gallery::random_elements(tensor);
      memory.emplace_back(gallery::bytes_of(tensor), target);
      regard::copy(memory.back().data(), numbers.data(), memory.back().bytes());
      tensor.data = memory.back().data();
      arguments.set(role, tensor);
    }

    regard::Options options;
    options.target = target;
    regard::Plan plan(problem, options);
    plan.prepare();  // finds or compiles every kernel now, so that the first run does not have to
    const regard::Workspace workspace(plan);
    plan.run(arguments, workspace.data(), workspace.bytes());
    regard::detail::require(regard_memory_wait(memory.back().data(), nullptr));

    const std::string verdict = regard::check(problem, arguments);
    if (!verdict.starts_with(R"({"ok":true)")) throw std::runtime_error(verdict);
    std::printf("%s: as the oracle says\n", problem.text().c_str());
  });
}
