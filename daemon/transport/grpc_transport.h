// The network of production: every call is a gRPC bidirectional stream of frames over TCP or a Unix
// socket.
//
// gRPC's threads only hand bytes to the loop; nothing here blocks it, but destroying a Listener or
// the transport waits for gRPC to let go of its calls (milliseconds). Interoperates with generated
// stubs of unary and streaming services: a frame is one message.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "daemon/env/env.h"
#include "daemon/transport/tls.h"

namespace grpc {
class ResourceQuota;
}

namespace atolld {

class CappedLine;
class ChannelCache;
class LiveCalls;

// Of a machine's line, as the network sees them but for handshakes and what was sent again.
struct LineBytes {
  uint64_t sent = 0;
  uint64_t received = 0;
};

class GrpcTransport final : public Transport {
 public:
  struct Options {
    // [membership] failure_timeout, the one time-out. Keepalive derives from it: a link that is
    // silent for half of it is probed, and broken when the probe stays unanswered for the whole.
    absl::Duration failure_timeout = absl::Seconds(10);
    // Connections to one address, used in turn by its calls: one connection holds some 18 MB in
    // flight, which is too little for a fat long link.
    int lanes = 1;
    // What gRPC may hold for messages, all calls together.
    size_t memory_bytes = size_t{512} << 20;
    // None: plain text. Unix-domain sockets never have any: the file's mode is their guard.
    std::optional<TlsCredentials> tls;
  };

  GrpcTransport(Executor& executor, Options options);

  // Breaks the calls that are still there; their owners are told through the loop, if it runs
  // again. Listeners must have been destroyed.
  ~GrpcTransport() override;

  // Also INVALID_ARGUMENT: no such address; PERMISSION_DENIED.
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;

  // A dial after a broken link or a refusal tries anew at once; the caller's own back-off is the
  // only one.
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

  void RefuseKeys(const std::set<std::string>& keys) override;

  // Caps of all that goes over the network, in bytes a second, headers and all; 0: none. They hold
  // from now on. With the first ones, calls to and from other peers are broken, UNAVAILABLE, and go
  // on once they are dialled again; a call to the coordinator goes on, and comes under the caps
  // with its next dial. RESOURCE_EXHAUSTED: no descriptor is left, and nothing has changed. Loop
  // thread.
  absl::Status SetCaps(uint64_t up_cap, uint64_t down_cap);

  // Since this was made, all calls but those on Unix-domain sockets.
  LineBytes line_bytes() const;

 private:
  Executor& executor_;
  const Options options_;
  const std::shared_ptr<CappedLine> line_;
  const std::unique_ptr<grpc::ResourceQuota> quota_;
  const std::shared_ptr<ChannelCache> channels_;
  const std::shared_ptr<LiveCalls> dialled_;  // other peers
  const std::shared_ptr<LiveCalls> dialled_coordinator_;
  const std::shared_ptr<LiveCalls> dialled_here_;  // this machine's own: a worker
};

}  // namespace atolld
