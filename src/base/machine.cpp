#include "base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "base/forever.h"

namespace regard {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> number(const std::string& path) {
  const std::optional<std::string> line = first_line(path);
  if (!line || line->empty() || line->find_first_not_of("0123456789-") != std::string::npos) return {};
  return std::strtoll(line->c_str(), nullptr, 10);
}

struct Cgroup {
  bool unified;  // v2
  std::string controllers, path;
};

// Lines of /proc/self/cgroup: "0::/user.slice" (v2) and "4:cpu,cpuacct:/docker/1234" (v1).
std::vector<Cgroup> cgroups(const std::string& root) {
  std::vector<Cgroup> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    groups.push_back({line.compare(0, 3, "0::") == 0, line.substr(first + 1, second - first - 1),
                      line.substr(second + 1)});
  }
  return groups;
}

bool controls(const Cgroup& group, std::string_view controller) {
  std::istringstream list(group.controllers);
  for (std::string word; std::getline(list, word, ',');) {
    if (word == controller) return true;
  }
  return false;
}

// Calls visit(folder) for the group's folder and each folder above it: any of them may set the limit, and in
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

int count_cores() {
  const int affinity = affinity_cores();
  const int quota = cgroup_cores("");
  return std::min(affinity, quota > 0 ? quota : affinity);
}

}  // namespace

int cgroup_cores(const std::string& root) {
  double cores = 0;
  const auto limit = [&](double quota, double period) {
    if (quota > 0 && period > 0) cores = cores == 0 ? quota / period : std::min(cores, quota / period);
  };
  for (const Cgroup& group : cgroups(root)) {
    if (group.unified) {
      each_level(root + "/sys/fs/cgroup", group.path, [&](const std::string& folder) {
        const std::string text = first_line(folder + "/cpu.max").value_or("max");
        double quota = 0, period = 0;
        if (std::sscanf(text.c_str(), "%lf %lf", &quota, &period) == 2) limit(quota, period);
      });
    } else if (controls(group, "cpu")) {
      each_level(root + "/sys/fs/cgroup/cpu", group.path, [&](const std::string& folder) {
        limit(static_cast<double>(number(folder + "/cpu.cfs_quota_us").value_or(0)),
              static_cast<double>(number(folder + "/cpu.cfs_period_us").value_or(0)));
      });
    }
  }
  const int whole = static_cast<int>(cores);
  return cores > whole ? whole + 1 : whole;
}

std::int64_t cgroup_memory(const std::string& root) {
  std::int64_t left = -1;
  for (const Cgroup& group : cgroups(root)) {
    if (!group.unified && !controls(group, "memory")) continue;
    const std::string mount = root + (group.unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    each_level(mount, group.path, [&](const std::string& folder) {
      const auto most = number(folder + (group.unified ? "/memory.max" : "/memory.limit_in_bytes"));
      const auto used = number(folder + (group.unified ? "/memory.current" : "/memory.usage_in_bytes"));
      if (!most || !used) return;
      const std::int64_t free = std::max<std::int64_t>(0, *most - *used);
      left = left < 0 ? free : std::min(left, free);
    });
  }
  return left;
}

int usable_cores() {
  return forever<count_cores>();
}

std::int64_t available_memory() {
  std::int64_t bytes = -1;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) bytes = std::strtoll(line.c_str() + 13, nullptr, 10) * 1024;
  }
  if (bytes < 0) bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const std::int64_t limit = cgroup_memory("");
  return limit >= 0 ? std::min(bytes, limit) : bytes;
}

}  // namespace regard
