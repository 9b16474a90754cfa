// How channels are made, and the cache of those that are open: one a lane and address.
//
// Every channel has connections of its own and forgets nothing between failures: one whose link
// broke is dropped, so that the next dial connects anew instead of waiting out gRPC's back-off. Any
// thread.
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

#include "absl/time/time.h"
#include "daemon/transport/tls.h"
#include "membership/trust/identity.h"

namespace atolld {

// Silences gRPC's own lines on standard error, unless GRPC_VERBOSITY is set. For the whole process.
void QuietGrpcLog();

// Limits, keepalive, back-off and the rest that every client of Atoll shares.
grpc::ChannelArguments ClientArguments(absl::Duration failure_timeout);

// Keepalive's two times in gRPC's milliseconds.
int KeepaliveTimeMilliseconds(absl::Duration failure_timeout);
int KeepaliveTimeoutMilliseconds(absl::Duration failure_timeout);

// "host:port" or "unix:/path" as gRPC's target.
std::string TargetOf(const std::string& address);

// One channel: with `tls` (null: plain text) to a server of this role alone. A Unix-domain socket's
// is plain text always.
// `target`: what gRPC dials in the address's place; empty: the address itself.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, Role server,
                                           const std::shared_ptr<grpc::ChannelCredentials>& tls,
                                           grpc::ChannelArguments arguments,
                                           const std::string& target = "");

class ChannelCache {
 public:
  // gRPC's target for an address, and for a server in this role.
  using Route = std::function<std::string(const std::string& address, Role server)>;

  // `tls` may be none: plain text.
  ChannelCache(std::optional<TlsCredentials> tls, grpc::ChannelArguments arguments, int lanes,
               Route route);

  // Whom a channel is to: whoever serves in this role, or if it is named, this peer alone.
  struct Server {
    Role role = Role::kPeer;
    std::string peer;
    bool operator<(const Server& other) const {
      return std::tie(role, peer) < std::tie(other.role, other.peer);
    }
  };

  // To this server at the address; with TLS nobody else is spoken to. The lanes take turns.
  std::shared_ptr<grpc::Channel> Get(const std::string& address, const Server& server);

  // Forgets the channels to named peers: the next call to one shakes hands anew. Calls on them go
  // on.
  void DropPeers();

  // Forgets all channels, since another route leads to their addresses by now. Calls on them go on.
  void DropAll();

  // Forgets this channel, if it is still the address's; calls on it go on.
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
