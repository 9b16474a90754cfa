// Makes gRPC's channels, and keeps the open ones in a cache: one for each lane and server.
//
// Every channel has connections of its own. A channel whose link broke is dropped from the cache,
// because it would keep gRPC's back-off; the next dial then connects anew at once. Thread-safe.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/transport/tls.h"
#include "membership/trust/identity.h"

namespace atolld {

// Silences gRPC's own log lines on standard error, unless GRPC_VERBOSITY is set; in that case the
// lines are written, but no thread waits for a slow reader of them. This applies to the whole
// process.
void QuietGrpcLog();

// The limits, keepalive, back-off and other settings that all clients of Atoll share.
grpc::ChannelArguments ClientArguments(absl::Duration failure_timeout);

// Return the values of gRPC's GRPC_ARG_KEEPALIVE_TIME_MS and GRPC_ARG_KEEPALIVE_TIMEOUT_MS.
int KeepaliveTimeMilliseconds(absl::Duration failure_timeout);
int KeepaliveTimeoutMilliseconds(absl::Duration failure_timeout);

// Returns gRPC's target for "host:port" or "unix:/path".
std::string TargetOf(const std::string& address);

// Makes one channel. With `tls`, the channel accepts only a server in this role. If `tls` is null
// or the address is a Unix-domain socket, the channel is plain text. `target` is what gRPC dials in
// place of the address; if it is empty, gRPC dials the address itself.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, Role server,
                                           const std::shared_ptr<grpc::ChannelCredentials>& tls,
                                           grpc::ChannelArguments arguments,
                                           const std::string& target = "");

// Makes a channel and waits until `end` at most for its connection. All addresses of the name are
// tried side by side; if no handshake ends on one of them within its part of the time, the others
// are tried. A channel that cannot be used because of a wrong certificate is also returned: a call
// on it fails with the reason. Fails with an error of ConnectionError (connection_failure.h), which
// does not name the address.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectChannel(
    const std::string& address, Role server, const std::shared_ptr<grpc::ChannelCredentials>& tls,
    const grpc::ChannelArguments& arguments, absl::Time end);

class ChannelCache {
 public:
  // Returns gRPC's target for a server in this role at `address`, whose numeric address is
  // `numbers` (see AddressBook).
  using Route = std::function<std::string(const std::string& address, const std::string& numbers,
                                          Role server)>;

  // Without `tls` the channels are plain text.
  ChannelCache(std::optional<TlsCredentials> tls, grpc::ChannelArguments arguments, int lanes,
               Route route);

  // The server that a channel leads to: any server in this role, or only `peer` if it is not empty.
  struct Server {
    Role role = Role::kPeer;
    std::string peer;
    bool operator<(const Server& other) const {
      return std::tie(role, peer) < std::tie(other.role, other.peer);
    }
  };

  // Both return the channel of the next lane to this server at the address; the lanes take turns.
  // With TLS the channel accepts no other server. If that channel is not open, Find returns null,
  // and Get makes it, to the numeric address `numbers`.
  std::shared_ptr<grpc::Channel> Find(const std::string& address, const Server& server);
  std::shared_ptr<grpc::Channel> Get(const std::string& address, const std::string& numbers,
                                     const Server& server);

  // Drops the channels to named peers, so that the next call to each makes a new handshake. Calls
  // under way continue.
  void DropPeers();

  // Drops all channels. Call this when the route to their addresses has changed. Calls under way
  // continue.
  void DropAll();

  // Drops this channel if the cache still holds it for the address. Calls under way continue.
  void Drop(const std::string& address, const std::weak_ptr<grpc::Channel>& channel);

 private:
  struct Lanes {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    size_t next = 0;
  };
  void DropIdleLocked();

  const std::optional<TlsCredentials> tls_;
  const grpc::ChannelArguments arguments_;
  const int lanes_;
  const Route route_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::map<std::string, std::map<Server, Lanes>> addresses_;
};

}  // namespace atolld
