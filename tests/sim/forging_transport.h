// ForgingTransport: a peer's transport that corrupts the signatures of the headers that the peer
// serves as a donor. It does so in half of the peer's calls, so that the forgery can be detected
// and the run can do without the peer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/env/env.h"

namespace atolld {

class ForgingTransport final : public Transport {
 public:
  // `under` must outlive this object.
  explicit ForgingTransport(Transport& under) : under_(under) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Transport& under_;
  const std::shared_ptr<uint64_t> calls_ = std::make_shared<uint64_t>(0);
};

}  // namespace atolld
