// What a run may begin with.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "membership/history/header.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

TEST(CheckGenesis, RefusesRulesThatNoExchangeCarriesOut) {
  // Broken: a run would begin whose first exchange ends the process.
  v1::Genesis genesis = TestRun().Genesis();
  EXPECT_TRUE(CheckGenesis(genesis).ok());
  v1::ExchangeSpec* exchange = genesis.mutable_spec()->mutable_exchange();
  exchange->set_aggregation("krum");
  EXPECT_FALSE(CheckGenesis(genesis).ok()) << "of no liars";
  exchange->set_faulty(1);
  EXPECT_TRUE(CheckGenesis(genesis).ok());
  exchange->set_aggregation("centred_clipping");
  EXPECT_FALSE(CheckGenesis(genesis).ok()) << "without clip";
  exchange->set_clip_bits(0x3f800000);
  EXPECT_TRUE(CheckGenesis(genesis).ok());
  exchange->set_clipping_steps(2);
  EXPECT_FALSE(CheckGenesis(genesis).ok());
  exchange->set_clipping_steps(1);
  exchange->set_clip_bits(0xbf800000);
  EXPECT_FALSE(CheckGenesis(genesis).ok()) << "a factor below 0";
}

TEST(CheckGenesis, RefusesManifestsThatDoNotAddUp) {
  // Broken: a worker's tensors would lie over one another in the flat vector.
  const TestRun run;
  EXPECT_TRUE(CheckGenesis(run.Genesis()).ok());
  const auto refused = [&](const std::function<void(v1::Genesis&)>& change) {
    v1::Genesis genesis = run.Genesis();
    change(genesis);
    return absl::IsInvalidArgument(CheckGenesis(genesis));
  };
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_manifest()->set_elements(999); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_manifest()->clear_tensors(); }));
  EXPECT_TRUE(
      refused([](v1::Genesis& g) { g.mutable_manifest()->mutable_tensors(1)->set_offset(1); }));
  EXPECT_TRUE(refused(
      [](v1::Genesis& g) { g.mutable_manifest()->mutable_tensors(1)->set_name("wte.weight"); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) {
    // 2^32 * 2^32 values: the product overflows to 0.
    v1::Tensor& tensor = *g.mutable_manifest()->mutable_tensors(0);
    tensor.set_shape(0, uint64_t{1} << 32);
    tensor.set_shape(1, uint64_t{1} << 32);
  }));
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_spec()->set_run_id("No Such Run"); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_spec()->set_numerics(2); }));
  EXPECT_TRUE(
      refused([](v1::Genesis& g) { g.mutable_spec()->mutable_exchange()->set_codec("x"); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) {
    g.mutable_spec()->mutable_exchange()->set_codec("topk");
    g.mutable_spec()->mutable_exchange()->set_stochastic_rounding(true);
  }));
  const auto upper = [&](const char* updates, const char* means, bool stochastic) {
    return refused([&](v1::Genesis& g) {
      g.mutable_spec()->mutable_exchange()->set_codec(updates);
      g.mutable_spec()->mutable_exchange()->set_upper_codec(means);
      g.mutable_spec()->mutable_exchange()->set_stochastic_rounding(stochastic);
    });
  };
  EXPECT_TRUE(upper("int8", "x", false));
  EXPECT_TRUE(upper("int8", "topk", false));
  EXPECT_TRUE(upper("topk", "int2", false));
  EXPECT_TRUE(upper("bf16", "fp16", true));
  EXPECT_FALSE(upper("bf16", "int4", true));
  EXPECT_FALSE(upper("topk", "int8", false));
  for (const uint32_t bits : {0x40000000u, 0x7fc00000u, 0xbf800000u, 0x80000000u}) {
    EXPECT_TRUE(refused([bits](v1::Genesis& g) {
      g.mutable_spec()->mutable_exchange()->set_feedback_decay_bits(bits);
    })) << bits;
  }
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.mutable_spec()->mutable_outer()->set_rule("x"); }));
  EXPECT_TRUE(
      refused([](v1::Genesis& g) { g.mutable_spec()->mutable_exchange()->set_chunk_elements(0); }));
  EXPECT_TRUE(refused([](v1::Genesis& g) { g.set_state_digest("short"); }));
}

}  // namespace
}  // namespace atolld
