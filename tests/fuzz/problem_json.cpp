#include "fuzz/fuzz.h"
#include "problem/problem.h"

using namespace regard;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (const Result<Problem> problem = problem_from_json(fuzz::text(data, size))) {
    const Result<Problem> again = problem_from_json(to_json(*problem));
    fuzz::demand(again && *again == *problem, "problem_from_json(to_json(problem)) == problem");
    (void)validate(*problem);
  }
  return 0;
}
