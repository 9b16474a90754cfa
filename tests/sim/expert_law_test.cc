// The law of who owns what, against each violation that it exists to find.
#include "tests/sim/expert_law.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/membership/history/records_text.h"

namespace atolld {
namespace {

// Two experts of 3 and 2 values between 2 + 1 shared ones, in chunks of 2: the entry has the shared
// values 0, 1, 6 and a zero, expert 0's 2, 3, 4 and a zero, expert 1's 5 and 7.
v1::Genesis TwoExperts(uint32_t owners) {
  v1::Genesis genesis;
  genesis.mutable_spec()->mutable_exchange()->set_chunk_elements(2);
  genesis.mutable_spec()->mutable_experts()->add_tensors("expert.#.*");
  genesis.mutable_spec()->mutable_experts()->set_owners(owners);
  uint64_t offset = 0;
  const auto add = [&](const std::string& name, uint64_t values) {
    v1::Tensor* const tensor = genesis.mutable_manifest()->add_tensors();
    tensor->set_name(name);
    tensor->add_shape(values);
    tensor->set_offset(offset);
    offset += values;
  };
  add("shared.0", 2);
  add("expert.0.w", 3);
  add("expert.1.w", 1);
  add("shared.1", 1);
  add("expert.1.b", 1);
  genesis.mutable_manifest()->set_elements(offset);
  return genesis;
}

constexpr char kFirst[] = "\x01", kSecond[] = "\x02", kBoth[] = "\x03";

class ExpertLawTest : public testing::Test {
 protected:
  ExpertLawTest() { law_.OnGenesis(TwoExperts(1)); }

  void Tell(const std::string& peer, const std::string& owned, uint64_t number = 7) {
    v1::Train train;
    train.set_version(1);
    train.set_epoch(1);
    train.set_number(number);
    train.set_owned(owned);
    law_.OnTrain(peer, train);
  }
  // The peer's worker leaves these values as they are and hands over an update of the others.
  void Learn(const std::string& peer, const std::vector<uint64_t>& frozen) {
    v1::TrainSteps train;
    std::vector<float> update(8, 1.0f);
    for (const uint64_t value : frozen) {
      v1::ValueRange* const range = train.add_frozen();
      range->set_first(value);
      range->set_count(1);
      update[value] = 0;
    }
    law_.OnTraining(peer, train);
    law_.OnUpdate(peer, update);
  }
  void Offer(const std::string& peer, const std::string& owned, uint64_t number = 7) {
    v1::Ready ready;
    ready.set_version(1);
    ready.set_train_number(number);
    ready.set_owned(owned);
    ready.set_contribution_root(peer);
    law_.OnReady(peer, ready);
  }
  void Plan(const std::string& first, const std::string& second) {
    v1::Plan plan;
    plan.set_version(1);
    plan.set_epoch(1);
    const std::vector<std::pair<std::string, std::string>> members = {{"p1", first},
                                                                      {"p2", second}};
    for (const auto& [peer, owned] : members) {
      v1::PlanMember* const member = plan.add_contributors();
      member->set_peer(peer);
      member->set_contribution_root(peer);
      member->set_owned(owned);
    }
    law_.OnPlan(plan);
  }
  // Both peers do as they should, up to here.
  void OfferBoth(const std::string& first, const std::string& second) {
    Tell("p1", first);
    Tell("p2", second);
    Offer("p1", first);
    Offer("p2", second);
  }

  std::set<int> violated_;
  ExpertLaw law_{[this](int invariant, const std::string&) { violated_.insert(invariant); }};
};

// Broken: a run that does everything right would be reported, or the parts would lie elsewhere.
TEST_F(ExpertLawTest, NothingIsWrongInARightRound) {
  Tell("p1", kFirst);
  Tell("p2", kSecond);
  Learn("p1", {5, 7});
  Offer("p1", kFirst);
  Learn("p2", {2, 3, 4});
  Offer("p2", kSecond);
  Plan(kFirst, kSecond);
  v1::EntryHeader header;
  header.set_version(1);
  header.add_contributors()->set_owned(kFirst);
  header.add_contributors()->set_owned(kSecond);
  *header.mutable_records() = RecordsOf({{"p1", {{2, "\x03"}, {2, "\x01"}, {1, "\x02"}}}});
  law_.OnHeader(header);
  EXPECT_TRUE(violated_.empty());
  EXPECT_EQ(law_.PartOf(1), 0u);
  EXPECT_EQ(law_.PartOf(2), 1u);
  EXPECT_EQ(law_.PartOf(4), 2u);
}

// Broken: an update could count for an expert on which it was not trained.
TEST_F(ExpertLawTest, APlanTakesNoMoreThanWasTrained) {
  OfferBoth(kFirst, kSecond);
  Plan(kFirst, kBoth);
  EXPECT_EQ(violated_, std::set<int>{20});
}

// Broken: an update could be said to be trained on experts that its peer was not given.
TEST_F(ExpertLawTest, APeerTrainsWhatItWasTold) {
  Tell("p1", kFirst);
  Offer("p1", kFirst);
  EXPECT_TRUE(violated_.empty());
  Offer("p1", kBoth);
  EXPECT_EQ(violated_, std::set<int>{20});
}

// Broken: a worker could train what its peer does not own, or not train what it owns.
TEST_F(ExpertLawTest, AWorkerIsToldToLeaveTheRest) {
  for (const std::vector<uint64_t>& frozen :
       {std::vector<uint64_t>{5}, std::vector<uint64_t>{4, 5, 7}, std::vector<uint64_t>{}}) {
    violated_.clear();
    Tell("p1", kFirst, 8 + frozen.size());
    Learn("p1", frozen);
    EXPECT_TRUE(violated_.empty());
    Offer("p1", kFirst, 8 + frozen.size());
    EXPECT_EQ(violated_, std::set<int>{20});
  }
}

// Broken: an update could move what its worker was told to leave as it is.
TEST_F(ExpertLawTest, AnUpdateIsZeroWhereNothingIsTrained) {
  Learn("p1", {5, 7});
  EXPECT_TRUE(violated_.empty());
  law_.OnUpdate("p1", std::vector<float>(8, 1.0f));
  EXPECT_EQ(violated_, std::set<int>{20});
}

// Broken: an owner that comes back with an old update could count beside the one that has taken its
// place.
TEST_F(ExpertLawTest, NoMoreOwnersThanTheRunSays) {
  OfferBoth(kBoth, kBoth);
  Plan(kFirst, kSecond);
  EXPECT_TRUE(violated_.empty());
  Plan(kFirst, kBoth);
  EXPECT_EQ(violated_, std::set<int>{20});
}

// Broken: a mean could count a contributor that does not own the chunk's expert.
TEST_F(ExpertLawTest, AMeanCountsOwnersAlone) {
  v1::EntryHeader header;
  header.set_version(1);
  header.add_contributors()->set_owned(kFirst);
  header.add_contributors()->set_owned(kSecond);
  *header.mutable_records() = RecordsOf({{"p1", {{2, "\x03"}, {2, "\x03"}, {1, "\x02"}}}});
  law_.OnHeader(header);
  EXPECT_EQ(violated_, std::set<int>{20});
}

}  // namespace
}  // namespace atolld
