// The stream to the daemon: gRPC over a Unix-domain socket.
//
// A reader thread puts each message that arrives into the inbox, and an Event::kClosed when the
// stream ends. The session's thread sends.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/base/link.h"

namespace atolld {

class GrpcLink : public Outbox {
 public:
  // Dials "unix:/path". `inbox` must outlive the link. Fails with UNAVAILABLE if no server listens
  // at that address.
  static absl::StatusOr<std::unique_ptr<GrpcLink>> Dial(const std::string& address, Inbox& inbox);

  // Closes the worker's side of the stream, gives the daemon a moment to close the other side, and
  // ends the reader thread.
  ~GrpcLink() override = default;
};

}  // namespace atolld
