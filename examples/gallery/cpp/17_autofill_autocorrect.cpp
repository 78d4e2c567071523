// What a line leaves out gets its default; what it gets wrong is refused, never guessed, with the word that
// was meant.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* text : {"s=64 d=64", "h=4 s=64 d=64 f32 mask=window:-1,0"}) {
      std::printf("%s -> %s\n", text, regard::Problem(text).text().c_str());
    }
    for (const char* text :
         {"fwd bf16 s=64 d=64 mask=casual", "fwd bf16 s=64 d=64 softmax_scale=0.5", "fwd bf16 s=64"}) {
      try {
        regard::Problem{text};
        throw std::runtime_error("it was taken");
      } catch (const regard::error& error) {
        std::printf("%s -> %s\n", text, error.what());
      }
    }
    gallery::Call("fwd fp32 h=4 s=64 d=64", target).run_and_judge();
  });
}
