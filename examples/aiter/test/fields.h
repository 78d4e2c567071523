// Changes every field of a struct in turn: the result changes, or it stays the same because the field is
// ignored here, or the call is refused with a sentence. A field without a line is a failure, so that a field
// of a newer version of AITER is not silently ignored.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cases.h"

namespace test {

bool walk_forward();
bool walk_backward();
bool walk_splitkv();

enum class Outcome { changes, stays, refused };

template <class Args>
struct Field {
  const char* name;
  const Case* of;  // the call that is changed
  Outcome outcome;
  const char* sentence;  // part of the refusal, if the call is refused
  void (*change)(Args&, Setup&);
  const void* (*place)(const Args&);
  std::size_t size, alignment;
};

#define FIELD(Args, name, of, outcome, sentence, ...)                                   \
  test::Field<Args> {                                                                   \
    #name, &of, test::Outcome::outcome, sentence,                                       \
        []([[maybe_unused]] Args& a, [[maybe_unused]] test::Setup& s) { __VA_ARGS__; }, \
        [](const Args& a) -> const void* { return &a.name; }, sizeof(Args::name),       \
        alignof(decltype(Args::name))                                                   \
  }

/// Whether the fields cover the struct from its beginning to its end, except for padding.
template <class Args>
bool complete(const std::vector<Field<Args>>& fields) {
  const Args args{};
  std::size_t end = 0, before = 1;
  for (const Field<Args>& field : fields) {
    const std::size_t place =
        static_cast<const char*>(field.place(args)) - reinterpret_cast<const char*>(&args);
    if (place == before) continue;  // a second line for the same field
    const std::size_t next = (end + field.alignment - 1) / field.alignment * field.alignment;
    if (place != next) {
      std::printf("WRONG  no line names the field before %s\n", field.name);
      return false;
    }
    before = place;
    end = place + field.size;
  }
  const std::size_t all = (end + alignof(Args) - 1) / alignof(Args) * alignof(Args);
  if (all != sizeof(Args)) std::printf("WRONG  no line names the fields after %s\n", fields.back().name);
  return all == sizeof(Args);
}

/// `run` makes the call, `clear` resets its outputs, `outputs` returns their bytes.
template <class Args>
struct Walk {
  Args Setup::* args;
  float (Setup::*run)();
  void (Setup::*clear)();
  std::vector<std::uint8_t> (Setup::*outputs)();

  /// A call before a field is changed, its results, and the memory that it writes to.
  struct Before {
    Before(const Case& c, const Walk& walk) : setup(c) {
      setup.forward();
      (setup.*walk.clear)();
      none = (setup.*walk.outputs)();
      result = (setup.*walk.run)();
      written = (setup.*walk.outputs)();
      args = setup.*walk.args;
    }
    Setup setup;
    Args args;
    float result;
    std::vector<std::uint8_t> none, written;
  };

  bool operator()(const char* what, const std::vector<Field<Args>>& fields) const {
    std::map<const Case*, std::unique_ptr<Before>> calls;
    int wrong = complete(fields) ? 0 : 1;
    for (const Field<Args>& field : fields) {
      auto& before = calls[field.of];
      if (!before) before = std::make_unique<Before>(*field.of, *this);
      Setup& s = before->setup;
      (s.*clear)();
      s.*args = before->args;
      field.change(s.*args, s);
      const float result = (s.*run)();
      const auto written = (s.*outputs)();
      const bool stays = written == before->written;
      bool good = before->result == 0 && result == 0 && stays == (field.outcome == Outcome::stays);
      if (field.outcome == Outcome::refused) {
        const std::string said = aiter::why_refused();
        good = result == -1 && written == before->none && said.find(field.sentence) != std::string::npos;
      }
      if (good) continue;
      ++wrong;
      std::printf("WRONG  %s of %s: returned %g, outputs %s, the last refusal: %s\n", field.name, what,
                  result,
                  stays                     ? "stay"
                  : written == before->none ? "are not written"
                                            : "change",
                  aiter::why_refused());
    }
    if (wrong == 0) std::printf("ok     %zu other values for fields of %s\n", fields.size(), what);
    return wrong == 0;
  }
};

}  // namespace test
