// The profile `aiter`: what aiter.ops.mha can ask for, learned sinks among it.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* problem :
         {"fwd bf16 b=2 hq=8 hk=2 s=64 d=64 mask=causal sink", "fwd bf16 b=2 h=4 s=64 d=64 bias=11"}) {
      gallery::Call(problem, target).run_and_judge();
      if (!gallery::profile_has("aiter", problem, target))
        throw std::runtime_error("the profile lacks its kernel");
    }
    const char* const other = "fwd fp32 h=4 s=64 d=64 bias=11";
    std::printf("its kernel is in the profile: %s: %s\n", other,
                gallery::profile_has("aiter", other, target) ? "yes" : "no");
  });
}
