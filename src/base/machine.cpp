#include "base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/text.h"

namespace regard {
namespace {

/// The files of one look at the system, and whether an existing file could not be read for a passing reason.
class Files {
 public:
  explicit Files(const std::string& root) : root_(root) {}

  std::string read(const std::string& path) {
    constexpr std::uint64_t most = 1 << 20;
    const Result<std::string> text = read_file(root_ + path, most, Links::followed);
    scarce = scarce || is_scarce(text);
    return text.value_or("");
  }

  std::optional<std::int64_t> number(const std::string& path) {
    const std::string text = read(path);
    const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
    if (line.empty() || line.find_first_not_of("0123456789-") != std::string::npos) return {};
    return std::strtoll(text.c_str(), nullptr, 10);
  }

  bool scarce = false;

 private:
  const std::string& root_;
};

struct Cgroup {
  bool unified;  // v2
  std::string controllers, path;
};

// Lines of /proc/self/cgroup: "0::/user.slice" (v2) and "4:cpu,cpuacct:/docker/1234" (v1).
std::vector<Cgroup> cgroups(Files& files) {
  std::vector<Cgroup> groups;
  const std::string text = files.read("/proc/self/cgroup");
  for (const std::string_view line : split(text, "\n")) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    groups.push_back({line.starts_with("0::"), std::string(line.substr(first + 1, second - first - 1)),
                      std::string(line.substr(second + 1))});
  }
  return groups;
}

bool controls(const Cgroup& group, std::string_view controller) {
  return std::ranges::any_of(split(group.controllers, ","),
                             [&](std::string_view word) { return word == controller; });
}

// Calls visit(folder) for the group's folder and each folder above it: any of them can set the limit, and in
// a container only the upper ones may be visible.
template <class Visit>
void each_level(const std::string& mount, std::string path, Visit visit) {
  while (true) {
    visit(mount + (path == "/" ? "" : path));
    if (path.empty() || path == "/") return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

int affinity_cores() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* const set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;  // else the kernel's mask is larger than ours: try a larger one
  }
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

double cgroup_cores(Files& files) {
  double cores = 0;
  const auto limit = [&](double quota, double period) {
    if (quota > 0 && period > 0) cores = cores == 0 ? quota / period : std::min(cores, quota / period);
  };
  for (const Cgroup& group : cgroups(files)) {
    if (group.unified) {
      each_level("/sys/fs/cgroup", group.path, [&](const std::string& folder) {
        const std::string text = files.read(folder + "/cpu.max");
        double quota = 0, period = 0;
        if (std::sscanf(text.c_str(), "%lf %lf", &quota, &period) == 2) limit(quota, period);
      });
    } else if (controls(group, "cpu")) {
      each_level("/sys/fs/cgroup/cpu", group.path, [&](const std::string& folder) {
        limit(static_cast<double>(files.number(folder + "/cpu.cfs_quota_us").value_or(0)),
              static_cast<double>(files.number(folder + "/cpu.cfs_period_us").value_or(0)));
      });
    }
  }
  return cores;
}

int rounded_up(double cores) {
  const int whole = static_cast<int>(std::min(cores, 1e6));
  return cores > whole ? whole + 1 : whole;
}

constinit std::atomic<int> known_cores{0};

}  // namespace

int cgroup_cores(const std::string& root) {
  Files files(root);
  return rounded_up(cgroup_cores(files));
}

std::int64_t cgroup_memory(const std::string& root) {
  Files files(root);
  std::int64_t left = -1;
  for (const Cgroup& group : cgroups(files)) {
    if (!group.unified && !controls(group, "memory")) continue;
    each_level(
        group.unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", group.path,
        [&](const std::string& folder) {
          const bool unified = group.unified;
          const auto most = files.number(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
          const auto used = files.number(folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
          if (!most || !used) return;
          const std::int64_t free = std::max<std::int64_t>(0, *most - *used);
          left = left < 0 ? free : std::min(left, free);
        });
  }
  return left;
}

int usable_cores() {
  if (const int known = known_cores.load(std::memory_order_relaxed)) return known;
  const std::string root;
  Files files(root);
  const int affinity = affinity_cores(), quota = rounded_up(cgroup_cores(files));
  const int cores = std::min(affinity, quota > 0 ? quota : affinity);
  if (!files.scarce) known_cores.store(cores, std::memory_order_relaxed);
  return cores;
}

bool cores_are_known() {
  return usable_cores() == known_cores.load(std::memory_order_relaxed);
}

std::int64_t available_memory() {
  std::int64_t bytes = -1;
  const std::string root;
  const std::string text = Files(root).read("/proc/meminfo");
  constexpr std::string_view name = "MemAvailable:";
  if (const std::size_t at = text.find(name); at != std::string::npos)
    bytes = std::strtoll(text.c_str() + at + name.size(), nullptr, 10) * 1024;
  if (bytes < 0) bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const std::int64_t limit = cgroup_memory("");
  return limit >= 0 ? std::min(bytes, limit) : bytes;
}

}  // namespace regard
