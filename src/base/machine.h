// What this process can use of the machine: cores and memory, as containers limit them.
#pragma once

#include <cstdint>
#include <string>

namespace regard {

/// Cores this process can use: its affinity and its cgroup's quota (rounded up). Read once, at first use;
/// where that fails for lack of files or memory, the quota counts from the next call on.
int usable_cores();
/// Whether usable_cores() is final.
bool cores_are_known();

/// Bytes that can be allocated now without swapping: MemAvailable, or less where the cgroup has a limit.
std::int64_t available_memory();

/// The same two limits read below another root folder, for tests. Cores: 0 = no quota; memory: -1 = no limit.
int cgroup_cores(const std::string& root);
std::int64_t cgroup_memory(const std::string& root);

}  // namespace regard
