// Decoding on a GPU: plan and workspace are kept, and every step is a launch that is not waited for.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call call("fwd fp32 b=2 hq=8 hk=2 sq=1 sk=512 d=64 lengths", target);
    call.set<std::int32_t>(REGARD_LENGTHS_K, {100, 100});
    regard::Plan plan = call.plan();
    plan.prepare();
    const regard::Workspace workspace(plan);
    for (std::int32_t length = 100; length < 103; ++length) {
      const std::int32_t lengths[] = {length, 2 * length};
      regard::copy(call.arguments()[REGARD_LENGTHS_K].data, lengths,
                   sizeof lengths);                                     // the plan stays the same
      plan.run(call.arguments(), workspace.data(), workspace.bytes());  // the default stream
    }
    regard::detail::require(regard_memory_wait(call.arguments()[REGARD_O].data, nullptr));
    call.judge();
  });
}
