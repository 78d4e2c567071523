// The profile `flash`: what the functions of flash_attn can ask for.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* problem : {"fwd bf16 b=2 h=4 s=64 d=64 mask=window:16,0 bias=alibi",
                                "fwd bf16 b=2 hq=8 hk=2 s=64 d=64 mask=causal softcap=30"}) {
      gallery::Call(problem, target).run_and_judge();
      if (!gallery::profile_has("flash", problem, target))
        throw std::runtime_error("the profile lacks its kernel");
    }
    const char* const other = "fwd bf16 h=4 s=64 d=64 bias=bh";
    std::printf("its kernel is in the profile: %s: %s\n", other,
                gallery::profile_has("flash", other, target) ? "yes" : "no");
  });
}
