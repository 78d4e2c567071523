// The one table of settings. Each is an environment variable read once, at first use; docs/settings.md and
// `regard info` are generated from this table. Parsing is strict: an invalid value is an error, and an
// unknown REGARD_* name is reported.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/save_calls.h"
#include "base/text.h"

namespace regard {

#define REGARD_LOG_TOPIC_LISTED(topic) #topic ", "

// X(member, type, environment name, default, one sentence of documentation)
// Types: Switch (0/off/false/no, 1/on/true/yes), Number (non-negative integer), Text, Url,
// List (with commas), Paths (with colons), Calls (base/save_calls.h).
#define REGARD_SETTINGS(X)                                                                                   \
  X(jit, Switch, "REGARD_JIT", true,                                                                         \
    "Compile kernels on demand; off refuses with the key and what was searched.")                            \
  X(built_in, Switch, "REGARD_BUILT_IN", true,                                                               \
    "Use the kernels compiled into the library; off takes them from the cache or compiles them.")            \
  X(bundle, Text, "REGARD_BUNDLE", "", "Bundle of kernels that is asked before all other places.")           \
  X(bundle_path, Paths, "REGARD_BUNDLE_PATH", "",                                                            \
    "Colon-separated bundles, and folders with bundles (*.bundle), that are asked after the library.")       \
  X(trusted_keys, List, "REGARD_TRUSTED_KEYS", "",                                                           \
    "Comma-separated public keys in hex; from bundles, a remote store and the cache, only kernels signed "   \
    "with one of them, or compiled here, are used; empty is an error.")                                      \
  X(cache_dir, Text, "REGARD_CACHE_DIR", "",                                                                 \
    "Folder of the kernel cache; empty means the user's cache folder.")                                      \
  X(cache_bytes, Number, "REGARD_CACHE_BYTES", 1073741824,                                                   \
    "Size bound of the cache; least recently used entries go first.")                                        \
  X(cache, Switch, "REGARD_CACHE", true, "Read and write the kernel cache.")                                 \
  X(remote, Url, "REGARD_REMOTE", "",                                                                        \
    "URL of a remote store, which is asked for kernels before they are compiled.")                           \
  X(remote_write, Switch, "REGARD_REMOTE_WRITE", false, "Put what is compiled here into the remote store.")  \
  X(remote_seconds, Number, "REGARD_REMOTE_SECONDS", 5,                                                      \
    "How long one request to the remote store may take.")                                                    \
  X(signing_key, Text, "REGARD_SIGNING_KEY", "",                                                             \
    "File with the private key that signs what is put into the remote store.")                               \
  X(strict, Switch, "REGARD_STRICT", false, "Refuse instead of falling to a slower family.")                 \
  X(verify, Text, "REGARD_VERIFY", "",                                                                       \
    "Run a second path (a family, a target or 'oracle') in addition to each call and report the "            \
    "difference; refuse a workspace that another call uses at that moment.")                                 \
  X(cpu_target, Text, "REGARD_CPU_TARGET", "",                                                               \
    "Highest CPU target to use, e.g. cpu-generic; empty means the best of this machine.")                    \
  X(disable, List, "REGARD_DISABLE", "", "Comma-separated families or kernels that must not be used.")       \
  X(threads, Number, "REGARD_THREADS", 0,                                                                    \
    "Threads of the CPU targets; 0 means all cores this process may use.")                                   \
  X(cxx, Text, "REGARD_CXX", "", "Host compiler for CPU kernels; empty searches c++, g++, clang++ on PATH.") \
  X(nvrtc, Text, "REGARD_NVRTC", "",                                                                         \
    "NVRTC's library or its folder; empty searches the Python package nvidia-cuda-nvrtc, CUDA_HOME, and "    \
    "the "                                                                                                   \
    "system's loader.")                                                                                      \
  X(hip_clang, Text, "REGARD_HIP_CLANG", "",                                                                 \
    "clang for kernels of AMD GPUs, 19 or later; empty searches ROCM_PATH, /opt/rocm, and clang-22 to "      \
    "clang-19 and clang on PATH.")                                                                           \
  X(hiprtc, Text, "REGARD_HIPRTC", "",                                                                       \
    "hiprtc's library or its folder, which compiles kernels of AMD GPUs unless REGARD_HIP_CLANG is set; "    \
    "empty searches hiprtc only if no clang is found.")                                                      \
  X(data_dir, Text, "REGARD_DATA_DIR", "",                                                                   \
    "Read kernels/, targets/ and profiles/ from this folder instead of the built-in copies; means "          \
    "REGARD_BUILT_IN=off.")                                                                                  \
  X(symbol_dir, Text, "REGARD_SYMBOL_DIR", "",                                                               \
    "Leave each CPU kernel that is loaded in this folder as a shared object, where profilers and debuggers " \
    "find its symbols.")                                                                                     \
  X(record, Text, "REGARD_RECORD", "",                                                                       \
    "Append each problem that is planned to this file, for `regard build` and `regard prebuild`.")           \
  X(tuning, Text, "REGARD_TUNING", "",                                                                       \
    "File of tuning records that `regard tune` wrote: the kernels that were measured to be the fastest "     \
    "(docs/tuning.md).")                                                                                     \
  X(save_calls, Calls, "REGARD_SAVE_CALLS", "",                                                              \
    "Save calls for `regard rerun` (docs/saved-calls.md): a folder, and after commas when=, calls=, "        \
    "bytes=.")                                                                                               \
  X(log, List, "REGARD_LOG", "",                                                                             \
    "Comma-separated topics reported on stderr: " REGARD_LOG_TOPICS(REGARD_LOG_TOPIC_LISTED) "or all.")      \
  X(lock_seconds, Number, "REGARD_LOCK_SECONDS", 60,                                                         \
    "How long to wait for another process that compiles the same kernel.")                                   \
  X(compile_jobs, Number, "REGARD_COMPILE_JOBS", 0,                                                          \
    "Compiles at a time, of all processes of a user; 0 derives it from cores and free memory.")

/// For REGARD_THREADS, and for callers.
inline constexpr int most_threads = 4096;

/// Texts separated by `separator`. Empty ones are ignored.
template <char separator>
struct ListOf {
  ListOf(const char* given) : text(given) {}  // NOLINT: the default in a table
  bool empty() const { return text.empty(); }
  std::vector<std::string_view> items() const {
    std::vector<std::string_view> parts = split(text, std::string_view(&separator_, 1));
    std::erase(parts, "");
    return parts;
  }

  std::string text;

 private:
  static constexpr char separator_ = separator;
};

/// A setting that is a URL.
struct Url {
  Url(const char* given) : text(given) {}  // NOLINT: the default in a table
  bool empty() const { return text.empty(); }

  std::string text;  ///< with its secrets
};

struct Settings {
  using Switch = bool;
  using Text = std::string;
  using Url = regard::Url;
  using Calls = SaveCalls;
  using List = ListOf<','>;
  using Paths = ListOf<':'>;
  using Number = std::int64_t;
#define REGARD_MEMBER(member, type, env, default_value, doc) type member = default_value;
  REGARD_SETTINGS(REGARD_MEMBER)
#undef REGARD_MEMBER
};

/// Name, type, default and documentation of each setting, for `regard info`, docs and tests.
struct SettingInfo {
  std::string_view name, type, default_text, doc;
};
std::span<const SettingInfo> setting_table();

/// The table of docs/settings.md.
std::string settings_markdown();

/// Parses an environment ("NAME=value" strings). Errors name the variable, its value and what would work;
/// unknown REGARD_* names are appended to `warnings`.
Result<Settings> parse_settings(std::span<const std::string> environment, std::vector<std::string>& warnings);

/// The settings of this process, read at first use. An error here is returned by every call that needs them.
const Result<Settings>& settings();

/// The current value of each setting as text, without secrets, in table order.
std::vector<std::string> setting_values(const Settings&);

}  // namespace regard
