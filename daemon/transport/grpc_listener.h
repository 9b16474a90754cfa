// The listening side of GrpcTransport: a gRPC server that takes any method and hands its calls to
// the acceptor.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/env/env.h"

namespace atolld {

class FrontDoor;
class LiveCalls;

class GrpcListener final : public Listener {
 public:
  struct Options {
    absl::Duration failure_timeout;
    std::shared_ptr<grpc::ServerCredentials> tls;  // null: plain text
    const grpc::ResourceQuota* quota = nullptr;
  };

  // Errors as Transport::Listen.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(Executor& executor, const Options& options,
                                                        const std::string& address,
                                                        Transport::Acceptor acceptor);
  ~GrpcListener() override;

  std::string address() const override { return address_; }

 private:
  class Service;
  explicit GrpcListener(std::unique_ptr<Service> service);

  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<FrontDoor> door_;  // none: a Unix-domain socket, which gRPC listens on itself
  std::string address_;
};

}  // namespace atolld
