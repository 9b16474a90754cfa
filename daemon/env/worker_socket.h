// WorkerSocket: where a peer's daemon listens for its worker, and likewise for the machine's owner.
//
// It is DIR/NAME, "worker.sock" for example, wherever that is an address: a socket's path has at
// most 107 characters, and gRPC reads "unix:" targets as URIs, in which '#', '?', '%' and ',' mean
// something. Of any other folder it is in a folder of its own among the temporary files, which goes
// with this object; what a killed process has left there goes with the next one.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace atolld {

class WorkerSocket {
 public:
  // `dir`: the peer's, which this process has locked (daemon/env/posix_folder_lock.h).
  static absl::StatusOr<std::unique_ptr<WorkerSocket>> Make(
      const std::string& dir, const std::string& name = "worker.sock");

  // The address of the one that a daemon has made in `dir`. NOT_FOUND: there is none.
  static absl::StatusOr<std::string> Find(const std::string& dir, const std::string& name);

  ~WorkerSocket();
  WorkerSocket(const WorkerSocket&) = delete;
  WorkerSocket& operator=(const WorkerSocket&) = delete;

  const std::string& address() const { return address_; }  // "unix:/path"

 private:
  WorkerSocket(std::string address, std::string name, std::string link)
      : address_(std::move(address)), name_(std::move(name)), link_(std::move(link)) {}

  const std::string address_;
  const std::string name_;
  const std::string link_;  // in the peer's folder, to the one of its own; empty: there is none
};

}  // namespace atolld
