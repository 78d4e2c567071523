// fp32 and 8-bit floats; the profile `all` has every type. 8-bit numbers count times their factors.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call("fwd fp32 b=2 h=4 s=96 d=64 mask=causal", target).run_and_judge();

    gallery::Call call("fwd fp8 b=2 h=4 s=96 d=64 mask=causal descale=tensor", target);
    for (const regard_role factor : {REGARD_DESCALE_Q, REGARD_DESCALE_K, REGARD_DESCALE_V}) {
      call.set<float>(factor, {0.5f});
    }
    call.run_and_judge();

    try {
      regard::Plan(regard::Problem("bwd fp8 h=4 s=96 d=64"), call.options());
    } catch (const regard::error& error) {
      std::printf("refused: %s\n", error.what());
    }
  });
}
