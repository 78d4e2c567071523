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
  json.at("hk").get_to(fields.hk);
  json.at("d").get_to(fields.d);
  json.at("dv").get_to(fields.dv);
  json.at("snew").get_to(fields.snew);
  json.at("tnew").get_to(fields.tnew);
  json.at("paged").get_to(fields.paged);
  json.at("cache").get_to(fields.cache);
  json.at("window_left").get_to(fields.window_left);
  json.at("sink_tokens").get_to(fields.sink_tokens);
  json.at("left_padding").get_to(fields.left_padding);
  fields.lists = json.at("table") == "sglang";
  fields.vectorized = json.at("kv_layout") == "vectorized";
  fields.slots = json.at("slots") != "none";
  fields.rope = json.at("rope") != "none";
  fields.masked = json.at("mask") != "none";
  fields.top_left = json.at("mask") == "window_top_left";
  fields.given_positions = json.at("positions") != "length";
  fields.first_positions = json.at("positions") == "sequence";
  fields.factors_of_tokens = json.at("descale") == "token" || json.at("descale") == "columns";
  return fields;
}

Problem with_tokens(const Problem& problem, std::int64_t tq, std::int64_t tk) {
  return changed(problem, {{"tq", tq}, {"tk", tk}});
}

Problem one_sequence(const Problem& problem, std::int64_t sq, std::int64_t sk) {
  const Json fields = ordered_json_of(problem.json());
  return changed(problem, {{"b", 1},
                           {"sq", sq},
                           {"sk", sk},
                           {"tq", 0},
                           {"tk", 0},
                           {"varlen", false},
                           {"lengths", false},
                           {"descale", fields.at("descale") == "none" ? "none" : "tensor"},
                           {"left_padding", false},
                           {"table", "vllm"},
                           {"kv_layout", "linear"},
                           {"rope", "none"},
                           {"rotary", 0},
                           {"rope_rows", 0},
                           {"rope_type", fields.at("bias_type")},
                           {"positions", "length"},
                           {"paged", 0},
                           {"pages", 0},
                           {"cache", 0},
                           {"snew", 0},
                           {"tnew", 0}});
}

Problem forward_of(const Problem& backward) {
  return changed(backward, {{"pass", "fwd"},
                            {"lse", true},
                            {"dbias", false},
                            {"dlse", false},
                            {"grads", ""},
                            {"deterministic", false}});
}

}  // namespace regard::cli
