#include "fuzz/fuzz.h"
#include "problem/problem.h"

using namespace regard;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text(data, size);
  if (const Result<Problem> problem = parse(text)) {
    const Result<Problem> again = parse(print(*problem));
    fuzz::demand(again && *again == *problem, "parse(print(problem)) == problem");
    (void)validate(*problem);
  }
  if (const Result<Signature> signature = parse_signature(text)) {
    const Result<Signature> again = parse_signature(print(*signature));
    fuzz::demand(again && *again == *signature, "parse_signature(print(signature)) == signature");
  }
  return 0;
}
