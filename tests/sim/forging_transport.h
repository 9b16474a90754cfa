// ForgingTransport: a peer's transport that spoils the signature of every header that the peer
// gives to others as a donor, in half of its calls: so it can be found out, and done without.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/env/env.h"

namespace atolld {

class ForgingTransport final : public Transport {
 public:
  explicit ForgingTransport(Transport& under) : under_(under) {}  // outlives this

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Transport& under_;
  const std::shared_ptr<uint64_t> calls_ = std::make_shared<uint64_t>(0);
};

}  // namespace atolld
