// WorkerSocket: the socket on which a peer's daemon listens for its worker, or for the machine's
// owner.
//
// The socket is DIR/NAME, with a name such as "worker.sock", if this path can be used as an address
// and the file system allows sockets. (A socket's path has at most 107 characters, and gRPC reads
// "unix:" targets as URIs, in which '#', '?', '%' and ',' have a meaning.) Otherwise the socket is
// in a folder of its own among the temporary files, which is removed with this object. A folder
// that a killed process has left is removed by the next process.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace atolld {

class WorkerSocket {
 public:
  // `dir` is the peer's folder, which this process has locked (daemon/env/posix_folder_lock.h).
  static absl::StatusOr<std::unique_ptr<WorkerSocket>> Make(
      const std::string& dir, const std::string& name = "worker.sock");

  // Returns OK if Make(dir) would give an address on which a process can listen. It tries this in
  // `scratch`, a folder on the same file system that only this process uses. The error says what
  // was tried and failed.
  static absl::Status Try(const std::string& dir, const std::string& scratch);

  // Returns the address of the socket that a daemon has made for `dir`; fails with NOT_FOUND if
  // there is none.
  static absl::StatusOr<std::string> Find(const std::string& dir, const std::string& name);

  ~WorkerSocket();
  WorkerSocket(const WorkerSocket&) = delete;
  WorkerSocket& operator=(const WorkerSocket&) = delete;

  const std::string& address() const { return address_; }  // The address, "unix:/path".

 private:
  static absl::StatusOr<std::unique_ptr<WorkerSocket>> MakeAmongTemporary(const std::string& dir,
                                                                          const std::string& name);
  WorkerSocket(std::string address, std::string name, std::string link)
      : address_(std::move(address)), name_(std::move(name)), link_(std::move(link)) {}

  const std::string address_;
  const std::string name_;
  // The link in the peer's folder to the socket's folder; empty if the socket is in the peer's
  // folder.
  const std::string link_;
};

}  // namespace atolld
