// Certificates for a benchmark: one authority, made on the spot, and one identity that all of its
// processes share. For measuring what TLS costs; no protection of anything.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace atolld {

// Writes authority, certificate and key (P-256) into `folder`, which only its owner should be able
// to read. The certificate is good for these hosts (IP addresses) and for a day.
absl::Status WriteBenchCertificates(const std::string& folder,
                                    const std::vector<std::string>& hosts);

struct BenchCredentials {
  std::shared_ptr<grpc::ChannelCredentials> channel;
  std::shared_ptr<grpc::ServerCredentials> server;  // demands a certificate of the same authority
};
// NOT_FOUND names the file that is missing.
absl::StatusOr<BenchCredentials> LoadBenchCredentials(const std::string& folder);

}  // namespace atolld
