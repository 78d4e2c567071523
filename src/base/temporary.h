// Files written next to their final location, or only temporary. The writer holds a lock on each, which
// distinguishes leftovers of a killed process from files in use.
#pragma once

#include <string>
#include <string_view>

namespace regard {

/// TMPDIR, else /tmp.
std::string temporary_folder();

/// First part of the names of this library's files and folders in temporary_folder().
inline constexpr std::string_view temporary_prefix = "regard-temporary-";
/// Folders with the source of a failed compile, for people to look at; gc removes them after a week.
inline constexpr std::string_view kept_prefix = "regard-failed-";

/// Marks the open file or folder as in use until the descriptor is closed; waits, if necessary, for scans
/// that hold the lock only to look. Where the file system has no locks, age decides.
void mark_in_use(int descriptor);
/// Whether it is no longer in use.
bool is_abandoned(int descriptor);

/// Removes what dead processes of this user left in temporary_folder().
void remove_abandoned_temporaries();

}  // namespace regard
