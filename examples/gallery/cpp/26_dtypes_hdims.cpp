// Types and head dimensions; each pair has a kernel, which is compiled when it is first used.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* type : {"fp32", "bf16", "fp16"}) {
      for (const char* d : {"d=64", "d=80", "d=64 dv=40"}) {
        gallery::Call(std::string("fwd ") + type + " h=2 s=50 mask=causal " + d, target).run_and_judge();
      }
    }
  });
}
