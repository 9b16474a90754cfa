#include "daemon/etcd/etcd_store.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/coordinator/stored_updates.h"
#include "tests/unit/daemon/etcd/etcd_process.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

using ::testing::HasSubstr;

constexpr char kPrefix[] = "atoll/r/";
constexpr char kElection[] = "atoll/r/leader";
constexpr absl::Duration kPatience = absl::Seconds(10);

// A term that lasts as long as the test, whoever led before.
std::shared_ptr<LeaderTerm> Elect(const EtcdProcess& etcd, const std::string& name) {
  EtcdClient client(etcd.access());
  const absl::StatusOr<int64_t> lease = client.Grant(absl::Seconds(60), kPatience);
  EXPECT_TRUE(lease.ok()) << lease.status();
  rpc::TxnRequest remove;
  remove.add_success()->mutable_request_delete_range()->set_key(kElection);
  EXPECT_TRUE(client.Txn(remove, kPatience).ok());
  rpc::TxnRequest request;
  rpc::PutRequest* const put = request.add_success()->mutable_request_put();
  put->set_key(kElection);
  put->set_value(name);
  put->set_lease(*lease);
  const auto answer = client.Txn(request, kPatience);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return std::make_shared<LeaderTerm>(MakeGrpcEtcd(), kElection, answer->header().revision(),
                                      *lease, LeaderTerm::Clock::now() + std::chrono::minutes(1));
}

std::string TextIn(const EtcdProcess& etcd) {
  EtcdStore reader(etcd.access(), kPrefix, nullptr);
  return TextOf(Loaded(reader));
}

// Would break: what the next coordinator knows after the leader was killed.
TEST(EtcdStore, HoldsEveryUpdateForTheNextLeader) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  MemoryStore memory(std::make_shared<MemoryStore::Disk>());
  EXPECT_EQ(TextIn(etcd), "- epoch 0 next 0");
  for (const RunUpdate& update : StoredUpdates()) {
    EtcdStore store(etcd.access(), kPrefix, Elect(etcd, "a"));
    const absl::Status applied = store.Apply(update);
    ASSERT_TRUE(applied.ok()) << applied;
    ASSERT_TRUE(memory.Apply(update).ok());
    EXPECT_EQ(TextOf(Loaded(store)), TextOf(Loaded(memory)));
  }
  EXPECT_EQ(TextIn(etcd), TextOf(Loaded(memory)));
  EtcdStore store(etcd.access(), kPrefix, Elect(etcd, "a"));
  EXPECT_EQ(store.ReadHeaders(0, 1)->size(), 1u);
  EXPECT_EQ(store.ReadHeaders(2, 9)->at(0).version(), 2u);
  EXPECT_TRUE(store.ReadHeaders(3, 9)->empty());
  // Of what is there already nothing is written, and nothing beside it.
  RunUpdate twice = StoredUpdates()[3];
  twice.headers = {StoredHeader(3)};
  EXPECT_TRUE(absl::IsAlreadyExists(store.Apply(twice)));
  EXPECT_EQ(TextIn(etcd), TextOf(Loaded(memory)));
}

// Would break: checkpoints in etcd, whose digests are replaced in the update that removes them.
TEST(EtcdStore, RenewsTheCheckpointWithWhatIsNew) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  MemoryStore memory(std::make_shared<MemoryStore::Disk>());
  EtcdStore store(etcd.access(), kPrefix, Elect(etcd, "a"));
  for (const RunUpdate& update : CheckpointUpdates()) {
    const absl::Status applied = store.Apply(update);
    ASSERT_TRUE(applied.ok()) << applied;
    ASSERT_TRUE(memory.Apply(update).ok());
    EXPECT_EQ(TextIn(etcd), TextOf(Loaded(memory)));
  }
}

// Would break: the history forks: two coordinators each commit a version of their own.
TEST(EtcdStore, AFormerLeaderWritesNothing) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  EtcdStore old(etcd.access(), kPrefix, Elect(etcd, "old:1"));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(old.Apply(StoredUpdates()[static_cast<size_t>(i)]).ok());
  EtcdStore fresh(etcd.access(), kPrefix, Elect(etcd, "fresh:1"));
  RunUpdate epoch;
  epoch.epoch = 9;
  ASSERT_TRUE(fresh.Apply(epoch).ok());
  const std::string before = TextIn(etcd);
  const absl::Status refused = old.Apply(StoredUpdates()[3]);
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("fresh:1 leads"));
  RunUpdate many;
  for (uint64_t version = 2; version < 200; ++version) {
    many.headers.push_back(StoredHeader(version));
  }
  EXPECT_TRUE(absl::IsAborted(old.Apply(many)));
  EXPECT_EQ(TextIn(etcd), before);
  ASSERT_TRUE(fresh.Apply(StoredUpdates()[3]).ok());
  EXPECT_NE(TextIn(etcd), before);
}

// Would break: a leader whose lease has run out by its own clock goes on as long as etcd lets it.
TEST(EtcdStore, ATermThatIsOverAsksNobody) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  const std::shared_ptr<LeaderTerm> term = Elect(etcd, "a");
  EtcdStore store(etcd.access(), kPrefix, term);
  term->Extend(LeaderTerm::Clock::now() - std::chrono::seconds(1));
  EXPECT_TRUE(absl::IsAborted(store.Apply(StoredUpdates()[0])));
  EXPECT_EQ(TextIn(etcd), "- epoch 0 next 0");
  term->Extend(LeaderTerm::Clock::now() + std::chrono::minutes(1));
  EXPECT_TRUE(term->over());  // never again
}

// Would break: an update of many transactions is half there after a leader's death.
TEST(EtcdStore, WhatWasDecidedInPartsIsFinishedByTheNextLeader) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  RunUpdate many;
  for (uint64_t version = 1; version <= 250; ++version) {
    many.headers.push_back(StoredHeader(version));
  }
  many.headers[3].set_signature(std::string(2 * kLargestPart, 's'));
  const std::vector<EtcdBatch> batches = BatchesOf(kPrefix, RowsOf(many));
  EtcdClient client(etcd.access());
  const auto put = [&](const std::string& key, const std::string& value) {
    rpc::TxnRequest request;
    request.add_success()->mutable_request_put()->set_key(key);
    request.mutable_success(0)->mutable_request_put()->set_value(value);
    ASSERT_TRUE(client.Txn(request, kPatience).ok());
  };
  for (size_t i = 0; i < batches.size(); ++i) {
    rpc::TxnRequest part;
    for (const rpc::RequestOp& one : batches[i].operations) *part.add_success() = one;
    put(std::string(kPrefix) + "parts/00000" + std::to_string(i), part.SerializeAsString());
  }
  // Its number is not there: it was never decided.
  {
    EtcdStore store(etcd.access(), kPrefix, Elect(etcd, "a"));
    EXPECT_EQ(Loaded(store).headers.size(), 0u);
  }
  put(std::string(kPrefix) + "parts/count", std::to_string(batches.size()));
  EtcdStore store(etcd.access(), kPrefix, Elect(etcd, "b"));
  const StoredRun run = Loaded(store);
  ASSERT_EQ(run.headers.size(), 250u);
  EXPECT_EQ(run.headers[3].SerializeAsString(), many.headers[3].SerializeAsString());
  EXPECT_NE(TextIn(etcd), "- epoch 0 next 0");  // and nothing is left of the parts
}

// Would break: etcd grows with every round until its space is gone.
TEST(EtcdStore, OldRevisionsAreCompacted) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  EtcdStore store(etcd.access(), kPrefix, Elect(etcd, "a"));
  RunUpdate update;
  for (uint64_t epoch = 1; epoch <= 300; ++epoch) {
    update.epoch = epoch;
    ASSERT_TRUE(store.Apply(update).ok());
  }
  EtcdClient client(etcd.access());
  rpc::RangeRequest request;
  request.set_key(RowKey(kPrefix, kRunTable, std::string("epoch")));
  request.set_revision(10);
  EXPECT_TRUE(absl::IsOutOfRange(client.Range(request, kPatience).status()));
  EXPECT_EQ(Loaded(store).epoch, 300u);
}

}  // namespace
}  // namespace atolld
