// ClipLiar: a peer's transport that falsifies what the peer says about the length of its update. It
// claims that the peer was told to keep to a huge length, and changes the number of parties that
// kept within the length to one that is far too high or far too low.
#pragma once

#include <memory>
#include <string>

#include "daemon/env/env.h"

namespace atolld {

class ClipLiar final : public Transport {
 public:
  explicit ClipLiar(Transport& under) : under_(under) {}  // `under` must outlive this object.

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override {
    return under_.Listen(address, std::move(acceptor));
  }
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Transport& under_;
};

}  // namespace atolld
