// What peers claim of their updates.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::PeerMessage Claim(const SimulatedPeers& peers, uint32_t steps, uint64_t tokens) {
  v1::PeerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_version(1);
  ready->set_epoch(peers.stored.epoch);
  ready->set_steps(steps);
  ready->set_tokens(tokens);
  ready->set_contribution_root(std::string(32, 'r'));
  ready->set_state_digest(std::string(32, 's'));
  return message;
}

// Would break: who claims the most tokens is the mean.
TEST(RunClaims, WhoClaimsMuchCountsAsTheCapAllows) {
  SimulatedPeers peers(3, 2);
  peers.settings.weight_cap = 4;
  peers.Restart();
  peers.Begin({"a", "b", "c"});
  peers.Ready("a");
  peers.Say("b", Claim(peers, 5, 1'000'000'000));
  peers.Ready("c");
  ASSERT_NE(peers.Plan("a"), nullptr);
  EXPECT_EQ(peers.Plan("a")->contributors(0).weight_bits(), 0x42c80000u);  // 100.0f
  EXPECT_EQ(peers.Plan("a")->contributors(1).weight_bits(), 0x43c80000u);  // 400.0f
}

// Would break: an update counts for samples that its peer does not hold.
TEST(RunClaims, AnUpdateOfMoreStepsThanSamplesIsRefused) {
  SimulatedPeers peers(2, 1);
  peers.Begin({"a", "b"});
  const SessionId session = peers.sessions.at("b");
  peers.Say("b", Claim(peers, 6, 120));
  ASSERT_EQ(peers.ended.count(session), 1u);
  EXPECT_THAT(std::string(peers.ended.at(session).message()), HasSubstr("it holds 10"));
}

}  // namespace
}  // namespace atolld
