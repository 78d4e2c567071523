#include "cli/fields.h"

#include <nlohmann/json.hpp>

#include "cli/json_text.h"

namespace regard::cli {
namespace {

using Json = nlohmann::ordered_json;

Problem changed(const Problem& problem, const Json& changes) {
  Json fields = ordered_json_of(problem.json());
  fields.update(changes);
  return Problem::from_json(json_text(fields));
}

}  // namespace

Fields fields_of(const Problem& problem) {
  const Json json = ordered_json_of(problem.json());
  Fields fields;
  json.at("pass").get_to(fields.pass);
  json.at("b").get_to(fields.b);
  json.at("sq").get_to(fields.sq);
  json.at("sk").get_to(fields.sk);
  json.at("tq").get_to(fields.tq);
  json.at("tk").get_to(fields.tk);
  json.at("varlen").get_to(fields.varlen);
  json.at("lengths").get_to(fields.lengths);
  return fields;
}

Problem with_tokens(const Problem& problem, std::int64_t tq, std::int64_t tk) {
  return changed(problem, {{"tq", tq}, {"tk", tk}});
}

Problem one_sequence(const Problem& problem, std::int64_t sq, std::int64_t sk) {
  return changed(problem, {{"b", 1},
                           {"sq", sq},
                           {"sk", sk},
                           {"tq", 0},
                           {"tk", 0},
                           {"varlen", false},
                           {"lengths", false},
                           {"paged", 0}});
}

Problem forward_of(const Problem& backward) {
  return changed(backward, {{"pass", "fwd"}, {"lse", true}, {"dbias", false}, {"deterministic", false}});
}

}  // namespace regard::cli
