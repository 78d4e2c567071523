// Starts a program that ends with this process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/descriptor.h"

namespace regard {

/// A pipe of which this process alone has one end, and all programs that it starts have the other. When this
/// process ends, for whatever reason, the kernel closes its end and thereupon kills the process group at the
/// other: so the owner of that end, and the signal that reports a change to it, are set by the child. A
/// parent-death signal would not do: the programs that a compiler starts in turn do not get it.
class Lifeline {
 public:
  Lifeline();
  /// Programs that live on, such as a compile server, are not killed when this process ends later.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  explicit operator bool() const { return ours_ && theirs_; }
  int ours() const { return ours_.number(); }
  int theirs() const { return theirs_.number(); }

 private:
  ForkPrivateFd ours_, theirs_;
};

struct Spawn {
  std::vector<std::string> command;  ///< the first is an absolute path
  std::vector<std::string> environment;
  std::string folder;  ///< its working folder
  int output;          ///< its standard output and error
  const Lifeline& lifeline;
};

/// The program becomes the leader of its own process group, so that its children can be killed with it. It
/// has no open files except the standard streams and its end of the lifeline. Returns errno, or 0 with
/// `process` set.
int spawn(Spawn, pid_t& process);

}  // namespace regard
