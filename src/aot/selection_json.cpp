#include <algorithm>

#include "aot/selection.h"
#include "base/json.h"
#include "compile/render.h"

namespace regard::aot {
namespace {

void write_count(JsonWriter& json, const Target& target, const Selection::Count& count) {
  json.object([&] {
    json.member("target", target.name);
    json.member("asked", count.asked);
    json.member("kernels", count.kernels);
    if (count.unserved == 0) return;
    json.member("unserved", count.unserved);
    json.member("why", count.why);
  });
}

void write_problem(JsonWriter& json, const Manifest::Asked& asked) {
  json.object([&] {
    json.member("problem", print(asked.problem));
    if (asked.target != nullptr) json.member("target", asked.target->name);
  });
}

void write_kernel(JsonWriter& json, const Selection::Kernel& kernel) {
  json.object([&] {
    json.member("kernel", kernel.text);
    json.member("target", kernel.key.target);
    json.member("lines", kernel.lines);
    if (kernel.binary != nullptr) json.member("binary", kernel.binary->path);
    json.member("symbol", symbol_of(kernel.key));
  });
}

}  // namespace

std::string to_json(const Manifest& manifest, const Selection& selection, Detail detail) {
  JsonWriter json;
  json.object([&] {
    json.member("manifest", manifest.file);
    if (!manifest.name_space.empty()) json.member("namespace", manifest.name_space);
    std::vector<std::string_view> outputs;
    for (const Output output : manifest.outputs) outputs.push_back(word(output));
    json.member("output", outputs);
    json.member("undeclared", word(manifest.undeclared));
    json.member("count", selection.count());
    json.member("targets", [&] {
      json.list([&] {
        for (const Selection::OfTarget& of_target : selection.targets) {
          json.object([&] {
            json.member("target", of_target.target->name);
            json.member("count", of_target.count);
          });
        }
      });
    });
    json.member("variants", [&] {
      json.list([&] {
        for (const Selection::OfVariants& variants : selection.variants) {
          json.object([&] {
            json.member("line", variants.line);
            json.member("what", variants.what);
            json.member("targets", [&] {
              json.list([&] {
                for (std::size_t i = 0; i < variants.counts.size(); ++i)
                  write_count(json, *selection.targets[i].target, variants.counts[i]);
              });
            });
            if (variants.problems.empty()) return;
            json.member("problems", [&] {
              json.list([&] {
                for (const Manifest::Asked* asked : variants.problems) write_problem(json, *asked);
              });
            });
          });
        }
      });
    });
    json.member("warnings", selection.warnings);
    if (detail == Detail::counts) return;
    json.member("kernels", [&] {
      json.list([&] {
        for (const Selection::OfTarget& of_target : selection.targets)
          for (const Selection::Kernel& kernel : of_target.kernels) write_kernel(json, kernel);
      });
    });
  });
  return json.take();
}

}  // namespace regard::aot
