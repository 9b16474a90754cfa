// Mutual TLS for gRPC, from a folder of credentials (daemon/identity/credentials.h).
//
// Both ends show a certificate that the run's authority signed. Each checks the other's chain and
// validity times in the handshake, before HTTP/2. The dialling end also requires the name of the
// role that it dials (see ServerName) and, if it dials a named peer, that peer's identity. The
// folder is read again every few seconds, so that new connections use a renewed certificate.
// Thread-safe.
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

// The keys of servers that this process refuses when it dials, even with valid certificates.
// Thread-safe.
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
  // Makes the credentials of channels to one peer or aggregator: the handshake with any other
  // server fails.
  std::function<std::shared_ptr<grpc::ChannelCredentials>(const std::string& peer)> channel_to;
  std::shared_ptr<grpc::ServerCredentials> server;
  std::shared_ptr<RefusedKeys> refused;  // the keys that the channels to peers refuse
};

// `folder` must have been loaded by LoadCredentials before, because LoadCredentials reports what is
// wrong with a folder. With a bad folder every handshake of gRPC would fail without a reason.
TlsCredentials MakeTlsCredentials(const std::string& folder);

// Reads the identities that the other ends of accepted calls have proved. Thread-safe.
class IdentityReader {
 public:
  // Fails with UNAUTHENTICATED if the certificate that was shown names no identity of Atoll.
  absl::StatusOr<Identity> Read(const grpc::AuthContext& context);

 private:
  std::mutex mutex_;
  // Guarded by mutex_. The identities of the certificates read lately: all calls of a connection
  // show the same certificate.
  std::map<std::string, Identity> read_;
};

}  // namespace atolld
