// The stream to the daemon: gRPC over a Unix-domain socket.
//
// A reader thread puts what arrives into the inbox, last an Event::kClosed; sends come from the
// session's thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/base/link.h"

namespace atolld {

class GrpcLink : public Outbox {
 public:
  // Dials "unix:/path". `inbox` must outlive the link. UNAVAILABLE: nobody listens there.
  static absl::StatusOr<std::unique_ptr<GrpcLink>> Dial(const std::string& address, Inbox& inbox);

  // Closes our side, gives the daemon a moment to close its own, and ends the reader.
  ~GrpcLink() override = default;
};

}  // namespace atolld
