// Reads a saved call, which may come from anywhere: every number in it is checked before it is used.
#include <fmt/format.h>

#include <charconv>
#include <map>

#include "arrays/safetensors.h"
#include "base/files.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/settings.h"
#include "base/text.h"
#include "engine/saved_call.h"

namespace regard {
namespace {

constexpr std::uint64_t most_description = 1 << 20;
/// A view of a larger tensor can have strides that would need far more memory than its elements. Such a
/// tensor is read back without gaps.
constexpr std::int64_t most_gaps = 8;

/// The values of a document by their places: "machine/cpu", "kernels/0/grid".
using Values = std::map<std::string, std::string>;

Result<Values> read_values(std::string_view text) {
  Values values;
  std::vector<std::string> names;    // of the objects and lists around a value
  std::vector<std::int64_t> counts;  // of the values of each so far; -1: an object
  const auto receive = [&](const JsonEvent& json) -> Status {
    using Kind = JsonEvent::Kind;
    if (json.kind == Kind::end) {
      names.pop_back();
      counts.pop_back();
      return {};
    }
    std::string name;
    for (const std::string& one : names) name += one;
    const bool in_list = !counts.empty() && counts.back() >= 0;
    const std::string own = counts.empty() ? ""
                            : in_list      ? std::to_string(counts.back()++)
                                           : std::string(json.key);
    if (json.kind == Kind::object || json.kind == Kind::list) {
      names.push_back(counts.empty() ? "" : own + "/");
      counts.push_back(json.kind == Kind::list ? 0 : -1);
    } else {
      values[name + own] = json.text;
    }
    return {};
  };
  if (Status status = read_json(text, "call.json", receive); !status) return tl::unexpected(status.error());
  return values;
}

class Reader {
 public:
  explicit Reader(std::string folder) : folder_(std::move(folder)) {}

  Result<SavedCall> read() {
    if (Status status = read_description(); !status) return wrong(status);
    if (Status status = read_tensors("inputs.safetensors", call_.before, false); !status)
      return wrong(status);
    if (call_.error.empty()) {
      if (Status status = read_tensors("outputs.safetensors", call_.after, true); !status)
        return wrong(status);
    }
    return std::move(call_);
  }

 private:
  tl::unexpected<Error> wrong(const Status& status) const {
    return fail(status.error().kind, fmt::format("{}: {}; REGARD_SAVE_CALLS writes such folders",
                                                 printable(folder_), status.error().message));
  }

  Result<std::string> contents(const std::string& name, std::uint64_t most) const {
    Result<std::string> text = read_file(folder_ + "/" + name, most, Links::followed);
    if (!text) return fail(text.error().kind, name + ": " + text.error().message);
    return text;
  }

  std::string text(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? "" : found->second;
  }
  template <class Number>
  Status number(const std::string& name, Number& out) const {
    const std::string digits = text(name);
    const char* const end = digits.data() + digits.size();
    const auto [after, error] = std::from_chars(digits.data(), end, out);
    if (error == std::errc{} && after == end && !digits.empty()) return {};
    return invalid("call.json has no whole number called " + name);
  }

  Status read_description() {
    const Result<std::string> description = contents("call.json", most_description);
    if (!description) return tl::unexpected(description.error());
    Result<Values> values = read_values(*description);
    if (!values) return tl::unexpected(values.error());
    values_ = std::move(*values);
    if (text("format") != "1")
      return invalid(fmt::format("call.json has format {}, and this version of Regard reads format 1",
                                 in_quotes(text("format"))));
    const Result<Problem> problem = parse(text("problem"));
    if (!problem) return tl::unexpected(problem.error());
    call_.problem = *problem;
    call_.why = text("why");
    call_.error = text("error");
    call_.version = text("version");
    call_.target = text("target");
    call_.family = text("family");
    call_.functions = text("functions");
    const std::string gpu = text("machine/gpu");
    call_.machine = gpu.empty() ? text("machine/cpu") : gpu;
    if (Status status = number("threads", call_.threads); !status) return status;
    if (call_.threads < 0 || call_.threads > most_threads) return invalid("call.json has wrong threads");
    if (Status status = number("seed", call_.before.seed); !status) return status;
    if (Status status = number("offset", call_.before.offset); !status) return status;
    for (std::size_t i = 0; values_.contains(fmt::format("kernels/{}/kernel", i)); ++i) {
      const std::string place = fmt::format("kernels/{}/", i);
      UsedKernel kernel{text(place + "kernel"), text(place + "digest"), 0};
      if (Status status = number(place + "grid", kernel.grid); !status) return status;
      call_.kernels.push_back(std::move(kernel));
    }
    return {};
  }

  /// The strides that a tensor had, or those without gaps.
  void set_strides(regard_tensor& tensor, std::string_view name) const {
    make_row_major(tensor);
    const std::int64_t elements = elements_of(tensor);
    regard_tensor given = tensor;
    std::int64_t last = 0;
    for (int axis = 0; axis < tensor.rank; ++axis) {
      std::int64_t& stride = given.strides[axis];
      std::int64_t part = 0;
      if (!number(fmt::format("strides/{}/{}", name, axis), stride) || stride < 0) return;
      if (__builtin_mul_overflow(stride, std::max<std::int64_t>(tensor.shape[axis] - 1, 0), &part)) return;
      if (__builtin_add_overflow(last, part, &last)) return;
    }
    if (last / most_gaps <= elements) tensor = given;
  }

  Status read_tensor(const NamedArray& named, bool written, regard_arguments& tensors) {
    const std::string& name = named.name;
    const Result<regard_role> role = role_from_name(name);
    if (!role) return tl::unexpected(role.error());
    const TensorSpec spec = tensor_spec(call_.problem, *role);
    const ArrayView& array = named.array;
    const bool fits = named.unreadable.empty() && spec.use != REGARD_UNUSED &&
                      array.element == element_of(spec.dtype) && !array.shape.empty() &&
                      array.shape.size() <= 4;
    if (!fits) return invalid(fmt::format("{} is not a tensor of {}", in_quotes(name), print(call_.problem)));
    regard_tensor tensor{};
    tensor.dtype = spec.dtype;
    tensor.rank = static_cast<std::int32_t>(array.shape.size());
    std::copy(array.shape.begin(), array.shape.end(), tensor.shape);
    written ? make_row_major(tensor) : set_strides(tensor, name);
    std::int64_t span = 1;
    for (int axis = 0; axis < tensor.rank; ++axis)
      span += std::max<std::int64_t>(tensor.shape[axis] - 1, 0) * tensor.strides[axis];
    const std::size_t size = bytes_of(tensor.dtype);
    Result<AlignedMemory> memory = aligned_memory(span * static_cast<std::int64_t>(size));
    if (!memory) return tl::unexpected(memory.error());
    auto* const to = static_cast<std::byte*>(memory->get());
    for_each_element(tensor, [&](std::int64_t index, std::int64_t offset) {
      std::memcpy(to + offset * static_cast<std::int64_t>(size),
                  array.bytes.data() + static_cast<std::size_t>(index) * size, size);
    });
    tensor.data = to;
    call_.memory.push_back(std::move(*memory));
    tensors.tensor[*role] = tensor;
    return {};
  }

  Status read_tensors(const std::string& name, regard_arguments& tensors, bool written) {
    const Result<std::string> file =
        contents(name, static_cast<std::uint64_t>(std::max<std::int64_t>(available_memory(), 0)));
    if (!file) return tl::unexpected(file.error());
    const Result<std::vector<NamedArray>> arrays = read_safetensors(std::as_bytes(std::span(*file)));
    if (!arrays) return fail(arrays.error().kind, name + ": " + arrays.error().message);
    for (const NamedArray& named : *arrays) {
      if (Status status = read_tensor(named, written, tensors); !status)
        return fail(status.error().kind, name + ": " + status.error().message);
    }
    return {};
  }

  const std::string folder_;
  Values values_;
  SavedCall call_;
};

}  // namespace

Result<SavedCall> read_saved_call(const std::string& folder) {
  return Reader(folder).read();
}

}  // namespace regard
