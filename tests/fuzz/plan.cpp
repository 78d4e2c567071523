#include <iterator>

#include "fuzz/fuzz.h"
#include "plan/plan.h"
#include "problem/problem.h"

using namespace regard;

/// The first byte chooses the target, the second the number of threads; the rest is the text of a problem. A
/// valid problem gives a plan or a sentence on every target and for any number of threads.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int threads[] = {1, 2, 3, 9, 16, 64, 1024};
  if (size < 2) return 0;
  const Result<Problem> problem = parse(fuzz::text(data + 2, size - 2));
  if (!problem || !validate(*problem)) return 0;
  const std::vector<Target>& all = *targets();
  Explanation explanation;
  const Result<Plan> made = plan(*problem, all[data[0] % all.size()],
                                 {.threads = threads[data[1] % std::size(threads)]}, &explanation);
  fuzz::demand(made ? !made->stages.empty() : !made.error().message.empty(),
               "a plan has stages, a refusal has a sentence");
  (void)to_text(explanation);
  (void)to_json(explanation);
  return 0;
}
