// What is written beside its final place, or for a while only. Its writer holds a lock on it, so that what a
// killed process left can be told from what is in use.
#pragma once

#include <string>
#include <string_view>

namespace regard {

/// TMPDIR, else /tmp.
std::string temporary_folder();

/// First part of the names of this library's files and folders in temporary_folder().
inline constexpr std::string_view temporary_prefix = "regard-temporary-";
/// Folders with the source of a failed compile, for people; gc removes them after a week.
inline constexpr std::string_view kept_prefix = "regard-failed-";

/// Marks the open file or folder as in use until the descriptor is closed, if need be after those who just
/// look whether it is. Where the file system has no locks, its age has to tell.
void mark_in_use(int descriptor);
/// Whether nobody uses it any more.
bool is_abandoned(int descriptor);

/// Removes what dead processes of this user left in temporary_folder().
void remove_abandoned_temporaries();

}  // namespace regard
