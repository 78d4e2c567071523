// The parsed command line. Declared to CLI11 in command_line.cpp, read by the verbs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "regard/regard.h"

namespace regard::cli {

/// Documented in docs/cli.md and in `regard --help`.
enum ExitCode : int {
  exit_ok = 0,
  exit_check_failed = 1,  ///< a result, or a cache entry, is wrong
  exit_bad_input = 2,     ///< the command line, a problem, a file or a setting
  exit_refused = 3,       ///< valid, but no plan or no kernel
  exit_internal = 4,      ///< out of memory, or a defect of Regard
};

/// Where `regard list` looks for kernels.
inline constexpr std::string_view listed_tiers[] = {"built-in", "bundle", "cache", "compile"};

struct Request {
  std::string verb;
  bool json = false;

  std::vector<std::string> words;  ///< problem text, or the verb's own words
  std::vector<std::string> targets, families;
  int threads = 0;
  std::string functions;

  // run
  std::map<regard_role, std::string> files;  ///< --q q.npy and so on
  std::string in, out, lengths_q, lengths_k;
  bool convert = false, check = true;
  std::uint64_t seed = 1;
  int repeat = 5;

  // bench
  std::string problems;  ///< file with one problem per line, "-" for standard input
  std::vector<std::string> peers;
  std::string commit;
  int rounds = 7;

  // tune, which also takes `problems`, `record`, `manifest` and `out`
  std::string check_file;
  int seconds = 60;

  // explain
  bool all = false;  ///< list every refused candidate individually

  // rerun
  bool oracle = false;

  // list
  std::string profile, tier;

  // build, which also takes `threads`
  int only = 0;  ///< as in regard_build_options
  std::string output;

  // bundle
  std::vector<std::string> paths;    ///< its files; of report too; of rerun the folder
  std::vector<std::string> trusted;  ///< public keys
  std::string key;                   ///< file of a private key

  // prebuild
  std::string manifest, record;
  std::vector<std::string> profiles;
  std::size_t sample = 0;  ///< kernels per target; 0: all
  bool strict = false;
};

}  // namespace regard::cli
