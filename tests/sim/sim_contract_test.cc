// The simulated network under the tests that the production one also passes.
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/transport/transport_contract.h"

namespace atolld {
namespace {

class SimContractWorld final : public TransportWorld {
 public:
  explicit SimContractWorld(SimSettings settings, std::optional<Role> role = std::nullopt)
      : world_(1, settings),
        server_(world_.AddProcess("server").env()),
        client_(world_.AddProcess("client").env()) {
    if (!role) return;
    identity_ = Identity{"contract", *role, "client", ""};
    world_.network().SetIdentity("client", *identity_);
  }

  Executor& executor() override { return server_.executor; }
  Transport& server() override { return server_.transport; }
  Transport& client() override { return client_.transport; }
  std::string listen_address() override { return "server:0"; }
  std::string dead_address() override { return "nobody:1"; }
  std::optional<Identity> client_identity() override { return identity_; }
  bool RunUntil(const std::function<bool()>& condition, absl::Duration limit) override {
    return world_.RunUntil(condition, limit);
  }

 private:
  SimWorld world_;
  Env server_;
  Env client_;
  std::optional<Identity> identity_;
};

SimSettings Slow() {
  SimSettings settings;
  settings.network.link = {absl::Milliseconds(50), absl::Milliseconds(30), 1e7};
  return settings;
}

// Would break: what the simulator proves of the daemon would not hold over gRPC.
INSTANTIATE_TEST_SUITE_P(
    Sim, TransportContract,
    ::testing::Values(
        WorldMaker{"Fast", [] { return std::make_unique<SimContractWorld>(SimSettings()); }},
        WorldMaker{"Slow", [] { return std::make_unique<SimContractWorld>(Slow()); }},
        WorldMaker{"Identity",
                   [] { return std::make_unique<SimContractWorld>(SimSettings(), Role::kPeer); }}),
    WorldName);

}  // namespace
}  // namespace atolld
