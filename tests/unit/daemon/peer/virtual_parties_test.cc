#include "daemon/peer/virtual_parties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "tests/sim/sim_world.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A worker that does what the test makes it do, and keeps what it was told.
class PartyWorker final : public Worker {
 public:
  void Start(const v1::RunSpec&, Events started) override { events = std::move(started); }
  void Renew(const v1::RunSpec&, const std::string&) override {}
  void Send(const v1::DaemonMessage& message) override { sent.push_back(message); }
  void Restart(const absl::Status& why) override { events.on_lost(why); }
  void Pause() override {}
  void Resume() override {}
  void Stop(Task done) override { done(); }

  Events events;
  std::vector<v1::DaemonMessage> sent;
};

constexpr uint64_t kPartyElements = 5;

class VirtualPartiesTest : public ::testing::Test {
 protected:
  void Make(VirtualParties::Settings settings, const v1::RunSpec& spec = {}) {
    VirtualParties::Hooks hooks;
    hooks.memory = [this] { return memory_.get(); };
    hooks.run = [this](Task work, Task done) {
      env_.executor.Offload(std::move(work), std::move(done));
    };
    parties_ = std::make_unique<VirtualParties>(env_, worker_, settings, std::move(hooks));
    parties_->Start(spec, {[this](const v1::WorkerConfigured& c) { configured_ = c; },
                           [this](const v1::WorkerMessage& m) { Heard(m); },
                           [this](const absl::Status& why) { lost_.push_back(why); }});
    worker_.events.on_configured({});
  }

  void Heard(const v1::WorkerMessage& message) {
    if (message.has_boundary()) boundaries_.push_back(message.boundary());
    if (message.has_progress()) progress_.push_back(message.progress());
    if (message.has_evaluated()) evaluated_.push_back(message.evaluated());
  }

  void Train(uint64_t version, bool taken = false) {
    v1::DaemonMessage order;
    order.mutable_train()->set_version(version);
    order.mutable_train()->set_steps(4);
    order.mutable_train()->set_taken(taken);
    parties_->Send(order);
    Run();
  }

  void Rebase(uint64_t version) {
    v1::DaemonMessage order;
    order.mutable_rebase()->set_version(version);
    parties_->Send(order);
  }

  // The worker answers the newest order, with `value` in the whole update.
  void Answer(float value, uint64_t tokens = 100, double loss = 2) {
    const v1::TrainSteps order = worker_.sent.back().train();
    for (float& one : memory_->writable_update()) one = value;
    if (spike_ != 0) memory_->writable_update()[0] = spike_;
    v1::WorkerMessage said;
    v1::Boundary* boundary = said.mutable_boundary();
    boundary->set_version(order.version());
    boundary->set_party(order.party());
    boundary->set_steps(order.steps());
    boundary->set_tokens(tokens);
    boundary->set_samples(tokens / 10);
    boundary->set_seconds(1);
    boundary->set_loss(loss);
    boundary->set_first_loss(loss + 1);
    worker_.events.on_message(said);
    Run();
  }

  void Run() { world_.RunFor(absl::Milliseconds(10)); }

  // Of the orders to train so far.
  std::vector<uint32_t> Trained() const {
    std::vector<uint32_t> numbers;
    for (const v1::DaemonMessage& message : worker_.sent) {
      if (message.has_train()) numbers.push_back(message.train().party());
    }
    return numbers;
  }

  float spike_ = 0;  // the first value of the worker's updates; 0: as the others
  SimWorld world_{1};
  Env env_ = world_.AddProcess("p").env();
  std::unique_ptr<ParameterMemory> memory_ = *ParameterMemory::Create(kPartyElements);
  PartyWorker worker_;
  std::unique_ptr<VirtualParties> parties_;
  v1::WorkerConfigured configured_;
  std::vector<v1::Boundary> boundaries_;
  std::vector<v1::WorkerProgress> progress_;
  std::vector<v1::WorkerEvaluated> evaluated_;
  std::vector<absl::Status> lost_;
};

TEST_F(VirtualPartiesTest, ThePeerHearsOfOneUpdateThatIsTheirMean) {
  // Broken: a host would contribute the last party's update, or count as one party.
  Make({3, 11, 0, true});
  EXPECT_EQ(configured_.parties(), 3u);
  Train(1);
  Answer(1, 100, 2);
  Answer(2, 300, 4);
  EXPECT_THAT(boundaries_, IsEmpty());
  Answer(8, 100, 7);
  EXPECT_THAT(Trained(), ElementsAre(1, 2, 3));  // as the worker counts its own
  ASSERT_EQ(boundaries_.size(), 1u);
  const v1::Boundary& boundary = boundaries_[0];
  EXPECT_EQ(boundary.version(), 1u);
  EXPECT_EQ(boundary.parties(), 3u);
  EXPECT_EQ(boundary.weight(), 500);  // tokens
  EXPECT_EQ(boundary.tokens(), 500u);
  EXPECT_EQ(boundary.samples(), 50u);
  EXPECT_EQ(boundary.steps(), 12u);
  EXPECT_EQ(boundary.seconds(), 3);
  EXPECT_DOUBLE_EQ(boundary.loss(), (100 * 2 + 300 * 4 + 100 * 7) / 500.0);
  EXPECT_DOUBLE_EQ(boundary.first_loss(), boundary.loss() + 1);
  EXPECT_EQ(boundary.party(), 0u);
  for (const float value : memory_->update()) EXPECT_FLOAT_EQ(value, (1 + 6 + 8) / 5.0f);
}

TEST_F(VirtualPartiesTest, ADrawIsRepeatedAfterTheWorkersDeath) {
  // Broken: half of a round would be counted twice, or other parties would train than were drawn.
  Make({100, 1, 5, false});
  Train(1);
  Answer(1);
  Answer(1);
  const std::vector<uint32_t> first = Trained();
  ASSERT_EQ(first.size(), 3u);
  worker_.events.on_lost(absl::UnavailableError("killed"));
  EXPECT_EQ(lost_.size(), 1u);
  worker_.events.on_configured({});
  worker_.sent.clear();
  Train(1);
  for (int i = 0; i < 5; ++i) Answer(3);
  const std::vector<uint32_t> again = Trained();
  ASSERT_EQ(again.size(), 5u);
  EXPECT_EQ(std::vector<uint32_t>(again.begin(), again.begin() + 3), first);
  ASSERT_EQ(boundaries_.size(), 1u);
  EXPECT_EQ(boundaries_[0].parties(), 5u);
  EXPECT_EQ(boundaries_[0].tokens(), 500u);
  for (const v1::DaemonMessage& message : worker_.sent) EXPECT_TRUE(message.train().fresh());
}

TEST_F(VirtualPartiesTest, WhereEpsilonCountsOnADrawNobodyElseKnowsIt) {
  // Broken: whoever knows the run's seed knew who took part, and was promised not to.
  v1::RunSpec spec;
  spec.set_seed(9);
  spec.mutable_privacy()->set_clip_bits(absl::bit_cast<uint32_t>(1.0f));
  spec.mutable_privacy()->set_sampling_bits(absl::bit_cast<uint32_t>(0.25f));
  Make({200, 1, 0, false}, spec);
  Train(1);
  Train(1);
  Train(1);
  const std::vector<uint32_t> first = Trained();  // the first of fifty, three times
  ASSERT_EQ(first.size(), 3u);
  EXPECT_FALSE(first[0] == first[1] && first[1] == first[2]);
  EXPECT_EQ(progress_.size(), 0u);
  for (int party = 0; party < 50; ++party) {
    EXPECT_THAT(boundaries_, IsEmpty());
    Answer(1);
  }
  EXPECT_EQ(Trained().size(), 52u);  // all of a_round would be 200
}

TEST_F(VirtualPartiesTest, ARebaseGoesToThePartyThatTrains) {
  // Broken: a party that trains would keep its old base, or one that is done would move its own.
  Make({2, 1, 0, true});
  Train(1);
  Rebase(1);
  ASSERT_EQ(worker_.sent.size(), 2u);
  EXPECT_TRUE(worker_.sent[1].has_rebase());
  worker_.sent.pop_back();
  Answer(4);
  Answer(6);
  Rebase(2);  // nobody trains
  EXPECT_EQ(worker_.sent.size(), 2u);
  for (const float value : memory_->update()) EXPECT_EQ(value, 5);
}

TEST_F(VirtualPartiesTest, AReplacedOrderDropsTheRound) {
  // Broken: an update of the round that was replaced would be counted in the next one.
  Make({2, 1, 0, true});
  Train(1);
  const v1::TrainSteps old = worker_.sent.back().train();
  Train(2);
  v1::WorkerMessage late;
  late.mutable_boundary()->set_version(old.version());
  late.mutable_boundary()->set_party(old.party());
  worker_.events.on_message(late);
  Run();
  EXPECT_THAT(Trained(), ElementsAre(1, 1));
  Answer(1);
  Answer(3);
  ASSERT_EQ(boundaries_.size(), 1u);
  EXPECT_EQ(boundaries_[0].version(), 2u);
  for (const float value : memory_->update()) EXPECT_EQ(value, 2);
}

TEST_F(VirtualPartiesTest, WhoseUpdateIsNotFiniteIsLeftOut) {
  // Broken: one party that diverges would cost the host every round, or begin from its broken
  // state again and again.
  Make({3, 1, 0, true});
  Train(1);
  Answer(2);
  Answer(std::numeric_limits<float>::infinity());
  Answer(4);
  ASSERT_EQ(boundaries_.size(), 1u);
  EXPECT_EQ(boundaries_[0].parties(), 2u);
  for (const float value : memory_->update()) EXPECT_EQ(value, 3);
  worker_.sent.clear();
  Train(2);
  Answer(1);
  Answer(1);
  EXPECT_FALSE(worker_.sent[0].train().fresh());
  EXPECT_TRUE(worker_.sent[1].train().fresh());
  EXPECT_FALSE(worker_.sent[2].train().fresh());
}

v1::RunSpec PrivateSpec() {
  v1::RunSpec spec;
  spec.mutable_privacy()->set_clip_bits(0x41200000);  // 10
  return spec;
}

TEST_F(VirtualPartiesTest, WithoutAClipNothingOfAPrivateRunIsHandedOver) {
  // Broken: what others may see only clipped would be sent as it was.
  Make({2, 1, 0, true}, PrivateSpec());
  Train(1);
  Answer(1);
  Answer(1);
  ASSERT_EQ(boundaries_.size(), 1u);
  EXPECT_EQ(boundaries_[0].parties(), 0u);
  EXPECT_TRUE(std::isnan(memory_->update()[0]));
}

TEST_F(VirtualPartiesTest, EachPartyIsClippedBeforeTheMean) {
  // Broken: a host would clip its mean, in which one party's update can still be seen.
  Make({2, 1, 0, true}, PrivateSpec());
  std::vector<double> lengths;
  parties_->SetClip([&lengths](absl::Span<float> update, double length) {
    lengths.push_back(length);
    const bool longer = update[0] > 10;
    for (float& value : update) value = std::min(value, 10.0f);
    return longer;
  });
  Train(1);
  Answer(1000);
  Answer(2);
  ASSERT_EQ(boundaries_.size(), 1u);
  for (const float value : memory_->update()) EXPECT_EQ(value, 6);
  EXPECT_EQ(boundaries_[0].within(), 1u);
  EXPECT_EQ(lengths, (std::vector<double>{10, 10}));
}

TEST_F(VirtualPartiesTest, WhatAPartyLostComesWithItsNextUpdate) {
  // Broken: with error feedback the parties of a host would lose what peers of their own keep.
  v1::RunSpec spec;
  spec.mutable_exchange()->set_codec("int4");
  spec.mutable_exchange()->set_chunk_elements(64);
  spec.mutable_exchange()->set_error_feedback(true);
  Make({1, 1, 0, true, "/peer", "p"}, spec);
  spike_ = 3.3f;  // which int4 takes a step of 0.47 for
  float sum = 0;
  for (uint64_t version = 1; version <= 20; ++version) {
    Train(version, /*taken=*/version > 1);
    Answer(1);
    sum += memory_->update()[3];
  }
  EXPECT_NEAR(sum / 20, 1, 0.02);
}

TEST_F(VirtualPartiesTest, ProgressIsThatOfTheWholeRound) {
  // Broken: the live view would show a round that begins anew with each party.
  Make({4, 1, 0, true});
  Train(3);
  Answer(1);
  v1::WorkerMessage said;
  said.mutable_progress()->set_version(3);
  said.mutable_progress()->set_step(5);
  said.mutable_progress()->set_steps(10);  // its own epoch has so many
  said.mutable_progress()->set_loss(2.5);
  worker_.events.on_message(said);
  ASSERT_EQ(progress_.size(), 1u);
  EXPECT_EQ(progress_[0].step(), 6u);  // 4 of the first party, half of the second's 4
  EXPECT_EQ(progress_[0].steps(), 16u);
  EXPECT_EQ(progress_[0].loss(), 2.5);
}

TEST_F(VirtualPartiesTest, WhereNobodyIsThereItWaitsForWhoComes) {
  // Broken: a host whose parties are all away would hand over nothing at all, for ever.
  Make({3, 1, 0, true});
  bool there = false;
  parties_->SetThere([&there](uint32_t party) { return there && party == 2; });
  Train(1);
  world_.RunFor(absl::Seconds(5));
  EXPECT_THAT(Trained(), IsEmpty());
  EXPECT_GE(progress_.size(), 4u);  // it lives
  there = true;
  world_.RunFor(absl::Seconds(2));
  EXPECT_THAT(Trained(), ElementsAre(2));
  Answer(7);
  ASSERT_EQ(boundaries_.size(), 1u);
  EXPECT_EQ(boundaries_[0].parties(), 1u);
}

TEST_F(VirtualPartiesTest, APartyIsToldWhetherItsNewestUpdateWasTaken) {
  // Broken: a party would move its own control variate by an update that nobody has, or not by one
  // that everybody has.
  v1::RunSpec spec;
  spec.mutable_inner()->set_control_variates(true);
  Make({2, 1, 0, true}, spec);
  Train(1);
  Answer(1);
  Answer(1);
  worker_.sent.clear();
  Train(2, /*taken=*/true);
  Answer(1);  // party 1 is told, and done; then the worker dies
  EXPECT_TRUE(worker_.sent[0].train().taken());
  EXPECT_TRUE(worker_.sent[1].train().taken());
  worker_.events.on_lost(absl::UnavailableError("killed"));
  worker_.events.on_configured({});
  worker_.sent.clear();
  Train(2, /*taken=*/true);
  Answer(1);
  Answer(1);
  EXPECT_FALSE(worker_.sent[0].train().taken());  // its newest was lost
  EXPECT_TRUE(worker_.sent[1].train().taken());   // has made none since
  worker_.sent.clear();
  Train(3, /*taken=*/false);
  Answer(1);
  EXPECT_FALSE(worker_.sent[0].train().taken());
  EXPECT_FALSE(worker_.sent[1].train().taken());
}

TEST_F(VirtualPartiesTest, AnOwnEvaluationIsOneOfSomeParties) {
  // Broken: ten thousand parties would be evaluated after every fifth round; or the answers would
  // be taken for the common share's.
  Make({100, 1, 0, true});
  v1::DaemonMessage order;
  order.mutable_evaluate()->set_version(5);
  parties_->Send(order);
  EXPECT_FALSE(worker_.sent.back().evaluate().own());  // the common one goes through
  order.mutable_evaluate()->set_own(true);
  parties_->Send(order);
  for (uint32_t i = 1; i <= VirtualParties::kMostEvaluated; ++i) {
    EXPECT_THAT(evaluated_, IsEmpty());
    ASSERT_EQ(worker_.sent.size(), 1u + i);
    v1::WorkerMessage said;
    v1::WorkerEvaluated* evaluated = said.mutable_evaluated();
    evaluated->set_version(5);
    evaluated->set_own(true);
    evaluated->set_party(worker_.sent.back().evaluate().party());
    evaluated->set_tokens(10);
    evaluated->set_loss_sum(20);
    evaluated->add_own_losses(i);
    worker_.events.on_message(said);
  }
  ASSERT_EQ(evaluated_.size(), 1u);
  EXPECT_TRUE(evaluated_[0].own());
  EXPECT_EQ(evaluated_[0].tokens(), 320u);
  ASSERT_EQ(evaluated_[0].own_losses_size(), 32);
  EXPECT_EQ(evaluated_[0].own_losses(31), 32);
}

}  // namespace
}  // namespace atolld
