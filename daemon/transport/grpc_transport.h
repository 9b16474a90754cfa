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

class ChannelCache;
class LiveCalls;

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

 private:
  Executor& executor_;
  const Options options_;
  const std::unique_ptr<grpc::ResourceQuota> quota_;
  const std::shared_ptr<ChannelCache> channels_;
  const std::shared_ptr<LiveCalls> dialled_;
};

}  // namespace atolld
