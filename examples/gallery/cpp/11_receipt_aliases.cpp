// What other libraries number as receipts has names here; an unknown one is refused with the nearest.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* name : {"pytorch", "flash", "aiter", "transformer_engine", "vllm", "jax"}) {
      const bool some = regard::list("cpu-avx2", name).size() > 2;
      std::printf("%s: %s\n", name, some ? "has kernels" : "is empty");
    }
    try {
      regard::list("cpu-avx2", "pytorhc");
    } catch (const regard::error& error) {
      std::printf("refused: %s\n", error.what());
    }
    gallery::Call("fwd fp32 h=4 s=64 d=64", target).run_and_judge();
  });
}
