// Mutual TLS for gRPC, out of a folder of credentials (daemon/identity/credentials.h).
//
// Both ends show a certificate of the cluster's authority and check the other's chain and times in
// the handshake, before HTTP/2. A dialler also demands the name of the role that it dials
// (ServerName), and where it knows whom it dials, that one's identity. The folder is looked at
// again every few seconds, so that a renewed certificate serves new connections. Any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "membership/trust/identity.h"

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace atolld {

// Keys that a dialler refuses whatever their certificates say. Own synchronisation: any thread.
class RefusedKeys {
 public:
  void Set(std::set<std::string> keys);
  bool Has(const std::string& key) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> keys_;  // guarded by mutex_
};

struct TlsCredentials {
  std::string folder;
  std::shared_ptr<grpc::ChannelCredentials> channel;
  // Of channels to this peer or aggregator alone: whoever else answers fails the handshake.
  std::function<std::shared_ptr<grpc::ChannelCredentials>(const std::string& peer)> channel_to;
  std::shared_ptr<grpc::ServerCredentials> server;
  std::shared_ptr<RefusedKeys> refused;  // by the channels to peers
};

// `folder` was loaded by LoadCredentials, which says what is wrong with it: here gRPC would only
// fail every handshake.
TlsCredentials MakeTlsCredentials(const std::string& folder);

// Who the other ends of accepted calls have proved to be. Own synchronisation: any thread.
class IdentityReader {
 public:
  // UNAUTHENTICATED: the certificate that was shown names no identity of Atoll.
  absl::StatusOr<Identity> Read(const grpc::AuthContext& context);

 private:
  std::mutex mutex_;
  // Guarded by mutex_: certificates read lately, since each call of a connection shows the same.
  std::map<std::string, Identity> read_;
};

}  // namespace atolld
