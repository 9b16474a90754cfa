#include "daemon/etcd/etcd_client.h"

#include <thread>

#include "gtest/gtest.h"
#include "tests/unit/daemon/etcd/etcd_process.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

absl::Status Put(EtcdClient& client, const std::string& key, const std::string& value,
                 int64_t lease = 0) {
  rpc::TxnRequest request;
  rpc::PutRequest* const put = request.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(value);
  put->set_lease(lease);
  return client.Txn(request, absl::Seconds(10)).status();
}

rpc::RangeResponse Get(EtcdClient& client, const std::string& key) {
  rpc::RangeRequest request;
  request.set_key(key);
  auto answer = client.Range(request, absl::Seconds(10));
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? *answer : rpc::RangeResponse();
}

// Would break: a coordinator whose first member of etcd is gone cannot begin, or waits out a
// back-off for each question.
TEST(EtcdClient, GoesOnToTheNextEndpoint) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  EtcdAccess access = etcd.access();
  access.endpoints.insert(access.endpoints.begin(), DeadEndpoint());
  EtcdClient client(access);
  ASSERT_TRUE(Put(client, "k", "v").ok());
  ASSERT_EQ(Get(client, "k").kvs_size(), 1);
  EXPECT_EQ(Get(client, "k").kvs(0).value(), "v");
}

// Would break: a coordinator without etcd hangs for ever, and nobody reads why.
TEST(EtcdClient, GivesUpWhereNobodyAnswers) {
  EtcdClient nobody(EtcdAccess{MakeGrpcEtcd(), {DeadEndpoint(), DeadEndpoint()}, "", "", ""});
  rpc::RangeRequest request;
  request.set_key("k");
  const auto answer = nobody.Range(request, absl::Milliseconds(300));
  EXPECT_FALSE(answer.ok());
  EXPECT_NE(answer.status().message().find("etcd at 127.0.0.1:"), std::string::npos)
      << answer.status();
}

// Would break: a process that is to end waits for etcd's answer.
TEST(EtcdClient, IsCancelledFromAnotherThread) {
  EtcdClient client(EtcdAccess{MakeGrpcEtcd(), {DeadEndpoint()}, "", "", ""});
  std::thread other([&] { client.Cancel(); });
  rpc::RangeRequest request;
  request.set_key("k");
  const auto answer = client.Range(request, absl::Hours(1));
  other.join();
  EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
}

// Would break: the leader's key outlives its holder, or a standby does not hear of its end.
TEST(EtcdClient, ALeaseTakesItsKeyAlong) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  EtcdClient client(etcd.access());
  const absl::StatusOr<int64_t> lease = client.Grant(absl::Seconds(60), absl::Seconds(10));
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(client.KeepAlive(*lease, absl::Seconds(10)).ok());
  ASSERT_TRUE(Put(client, "k", "v", *lease).ok());
  const rpc::RangeResponse there = Get(client, "k");
  ASSERT_EQ(there.kvs_size(), 1);
  EXPECT_EQ(there.kvs(0).lease(), *lease);
  // The watch is told of what came before it began, too.
  std::thread watcher([&] {
    EtcdClient own(etcd.access());
    EXPECT_TRUE(own.AwaitChange("k", there.header().revision(), absl::Seconds(60)).ok());
    EXPECT_EQ(Get(own, "k").kvs_size(), 0);
  });
  ASSERT_TRUE(client.Revoke(*lease, absl::Seconds(10)).ok());
  watcher.join();
  EXPECT_TRUE(absl::IsNotFound(client.KeepAlive(*lease, absl::Seconds(10))));
}

// Would break: after a compaction a standby's watch fails, and it never looks again.
TEST(EtcdClient, AWatchOfACompactedRevisionSaysLookAgain) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  EtcdClient client(etcd.access());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Put(client, "other", "v").ok());
  const int64_t now = Get(client, "k").header().revision();
  ASSERT_TRUE(client.Compact(now, absl::Seconds(10)).ok());
  EXPECT_TRUE(client.AwaitChange("k", 1, absl::Seconds(60)).ok());
}

}  // namespace
}  // namespace atolld
