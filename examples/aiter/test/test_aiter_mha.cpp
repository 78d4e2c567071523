// test_aiter_mha [TARGET]: calls the library as AITER's consumers do and compares all its outputs with
// ../../calls/test/reference.cpp; then changes every field of every struct (fields_*.cpp). TARGET
// is a CPU target, or "cuda". Needs the kernels of aiter_test.toml.
#include <cstdio>

#include "cases.h"
#include "fields.h"
#include "qola_mha_bwd.h"
#include "qola_mha_fwd.h"

namespace test {
namespace {

bool returned(const char* name, float milliseconds) {
  const bool good = milliseconds == 0;
  if (!good) std::printf("WRONG  %s returned %g: %s\n", name, milliseconds, aiter::why_refused());
  return good;
}

bool run_forward(const Case& c) {
  Setup s(c);
  return returned(c.name, s.forward()) && compare_forward(s);
}

bool run_both(const Case& c) {
  Setup s(c);
  if (!returned(c.name, s.forward()) || !compare_forward(s)) return false;
  return returned(c.name, s.backward()) && compare_backward(s);
}

bool run_split() {
  Setup s(split);
  s.lengths_q.assign(batch, room_q);  // all queries count
  return returned(split.name, s.split()) && compare_forward(s);
}

bool run_in_a_namespace() {
  Setup s(varlen);
  QOLA_NS(use_target)(target);
  const bool good =
      returned("qola", QOLA_NS(mha_fwd)(s.fwd, {})) && returned("qola", QOLA_NS(mha_bwd)(s.bwd, {}));
  s.fwd.v3_api_check = true;
  const bool refused = QOLA_NS(mha_fwd)(s.fwd, {}) == -1 && *QOLA_NS(why_refused)() != 0;
  std::printf("%s  in a namespace of one's own\n", good && refused ? "ok   " : "WRONG");
  return good && refused && compare_forward(s) && compare_backward(s);
}

bool run_timed() {
  Setup s(varlen);
  ck_tile::stream_config config;
  config.time_kernel_ = true, config.cold_niters_ = 1, config.nrepeat_ = 2;
  const bool measured = aiter::mha_fwd(s.fwd, config) > 0;
  config.flush_cache_ = true;
  const bool good = measured && aiter::mha_fwd(s.fwd, config) == -1;
  std::printf("%s  a call is timed\n", good ? "ok   " : "WRONG");
  return good && compare_forward(s);
}

}  // namespace
}  // namespace test

int main(int argc, char** argv) {
  test::target = argc > 1 ? argv[1] : nullptr;
  aiter::use_target(test::target);
  bool good = test::run_forward(test::window);
  for (const test::Case& c : {test::grouped, test::one_key_head, test::varlen}) good &= test::run_both(c);
  good &= test::run_split();
  good &= test::run_timed();
  good &= test::run_in_a_namespace();
  good &= test::walk_forward() & test::walk_backward() & test::walk_splitkv();
  return good ? 0 : 1;
}
