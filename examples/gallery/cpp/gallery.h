// What the examples share: the target to run on, a problem with memory for its tensors, and the oracle's
// verdict. Every example takes --target=NAME: cpu (the default: the best of this CPU), a CPU target by name,
// cuda or hip.
#pragma once

#include <regard/regard.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace gallery {

inline std::int64_t bytes_of(const regard::Tensor& tensor) {
  std::int64_t elements = 1;
  for (std::int32_t i = 0; i < tensor.rank; ++i) elements *= tensor.shape[i];
  switch (tensor.dtype) {
    case REGARD_INT64:
    case REGARD_UINT64:
      return elements * 8;
    case REGARD_FP32:
    case REGARD_INT32:
    case REGARD_UINT32:
      return elements * 4;
    case REGARD_BF16:
    case REGARD_FP16:
      return elements * 2;
    default:
      return elements;
  }
}

/// Random numbers in the tensor's type: normal ones, or, in fp16 and 8-bit types, random codes below 2 in
/// magnitude.
inline std::vector<unsigned char> random_elements(const regard::Tensor& tensor) {
  static std::mt19937 generator;
  std::normal_distribution<float> normal;
  std::vector<unsigned char> bytes(static_cast<std::size_t>(bytes_of(tensor)));
  if (tensor.dtype != REGARD_FP32 && tensor.dtype != REGARD_BF16) {
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(generator()) & 0xBF;
    return bytes;
  }
  const std::size_t size = tensor.dtype == REGARD_FP32 ? 4 : 2;
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    const float number = normal(generator);
    const auto* upper =
        reinterpret_cast<const unsigned char*>(&number) + 4 - size;  // bf16 is the upper half of fp32
    std::copy(upper, upper + size, &bytes[i]);
  }
  return bytes;
}

/// A problem and memory of the target for each tensor that it reads or writes: random inputs, outputs of
/// zeros. Lengths, offsets, tables and other integers are set by the example.
class Call {
 public:
  /// Tensors that `earlier`, such as the forward pass, has under the same role are used again.
  Call(const std::string& text, const std::string& target, const Call* earlier = nullptr)
      : problem_(text), target_(target) {
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      const auto role = static_cast<regard_role>(i);
      const auto [use, expected] = problem_.expected(role);
      if (use == REGARD_UNUSED || use == REGARD_OPTIONAL_INPUT || expected.dtype >= REGARD_INT32) continue;
      if (earlier != nullptr && earlier->arguments_[role].data != nullptr) {
        arguments_.set(role, earlier->arguments_[role]);
      } else if (use == REGARD_OUTPUT) {
        put(role, expected, std::vector<unsigned char>(static_cast<std::size_t>(bytes_of(expected))));
      } else {
        put(role, expected, random_elements(expected));
      }
    }
  }

  const regard::Problem& problem() const { return problem_; }
  regard::Arguments& arguments() { return arguments_; }

  /// Sets a tensor from elements of its type, in its order.
  template <typename T>
  void set(regard_role role, const std::vector<T>& elements) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(elements.data());
    regard::Tensor tensor = problem_.expected(role).tensor;
    if (tensor.rank == 1)
      tensor.shape[0] = static_cast<std::int64_t>(elements.size());  // lists of any length
    put(role, tensor, {bytes, bytes + elements.size() * sizeof(T)});
  }

  /// A tensor's elements, of type T.
  template <typename T = float>
  std::vector<T> get(regard_role role) const {
    const regard::Tensor& tensor = arguments_[role];
    std::vector<T> result(static_cast<std::size_t>(bytes_of(tensor)) / sizeof(T));
    regard::copy(result.data(), tensor.data, bytes_of(tensor));
    return result;
  }

  regard::Options options() const {
    regard::Options result;
    result.target = target_;
    return result;
  }
  regard::Plan plan() const { return regard::Plan(problem_, options()); }

  /// Runs the problem, and prints the oracle's verdict; a wrong result is an exception.
  void run_and_judge() {
    run(plan());
    judge();
  }
  void run(const regard::Plan& plan) {
    const regard::Workspace workspace(plan);
    plan.run(arguments_, workspace.data(), workspace.bytes());
    wait();
  }

  /// The median time of a run; the first one, which may compile a kernel, does not count.
  double seconds(const regard::Plan& plan, int repeat = 5) {
    const regard::Workspace workspace(plan);
    std::vector<double> times;
    for (int i = 0; i <= repeat; ++i) {
      const auto start = std::chrono::steady_clock::now();
      plan.run(arguments_, workspace.data(), workspace.bytes());
      wait();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    times.erase(times.begin());
    std::nth_element(times.begin(), times.begin() + repeat / 2, times.end());
    return times[static_cast<std::size_t>(repeat / 2)];
  }

  /// Whether every output agrees with the fp64 oracle, which computes it again from the inputs.
  bool right() const { return regard::check(problem_, arguments_).starts_with(R"({"ok":true)"); }
  void judge() const {
    if (!right())
      throw std::runtime_error(problem_.text() + ": wrong: " + regard::check(problem_, arguments_));
    std::printf("%s: as the oracle says\n", problem_.text().c_str());
  }

 private:
  void put(regard_role role, regard::Tensor tensor, const std::vector<unsigned char>& bytes) {
    regard::Memory memory(static_cast<std::int64_t>(bytes.size()), target_);
    if (!bytes.empty()) regard::copy(memory.data(), bytes.data(), memory.bytes());
    tensor.data = memory.data();
    arguments_.set(role, tensor);
    memory_[role] = std::move(memory);
  }
  void wait() const {
    regard::detail::require(regard_stream_wait(target_.empty() ? nullptr : target_.c_str(), nullptr));
  }

  regard::Problem problem_;
  std::string target_;
  regard::Arguments arguments_;
  std::map<regard_role, regard::Memory> memory_;
};

/// Whether a kernel of the problem's plan is one that the profile names for that target.
inline bool profile_has(const std::string& profile, const std::string& problem, const std::string& target) {
  regard::Options options;
  options.target = target;
  const regard::Plan plan(regard::Problem(problem), options);
  const std::string json = plan.json(), begin = "\"kernel\":\"";
  const std::size_t from = json.find(begin) + begin.size();
  const std::string kernel = json.substr(from, json.find('"', from) - from);
  return regard::list(plan.target(), profile).find(kernel) != std::string::npos;
}

/// Calls `example` with the target's name; an exception fails the program.
inline int main(int argc, char** argv, const std::function<void(const std::string& target)>& example) try {
  const std::string option = "--target=", argument = argc > 1 ? argv[1] : option + "cpu";
  if (argc > 2 || !argument.starts_with(option)) throw std::runtime_error("the only option is --target=NAME");
  const std::string target = argument.substr(option.size());
  example(target == "cpu" ? "" : target);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

}  // namespace gallery
