// The model of etcd itself: no seed can reveal its errors.
#include "tests/sim/etcd_state.h"

#include "gtest/gtest.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

rpc::TxnRequest PutOf(const std::string& key, const std::string& value, int64_t lease = 0) {
  rpc::TxnRequest request;
  rpc::PutRequest* const put = request.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(value);
  put->set_lease(lease);
  return request;
}

rpc::RangeRequest RangeOf(const std::string& key, const std::string& end, int64_t revision = 0,
                          int64_t limit = 0) {
  rpc::RangeRequest request;
  request.set_key(key);
  request.set_range_end(end);
  request.set_revision(revision);
  request.set_limit(limit);
  return request;
}

// Would break: a reader at one revision sees what was written later, or what had been deleted.
TEST(EtcdState, KeepsRevisions) {
  EtcdState state;
  EXPECT_EQ(state.revision(), 1);
  ASSERT_TRUE(state.Txn(PutOf("a/1", "x")).ok());
  ASSERT_TRUE(state.Txn(PutOf("a/2", "y")).ok());
  ASSERT_TRUE(state.Txn(PutOf("a/1", "z")).ok());
  rpc::TxnRequest remove;
  remove.add_success()->mutable_request_delete_range()->set_key("a/2");
  ASSERT_EQ(state.Txn(remove)->header().revision(), 5);
  ASSERT_EQ(state.Txn(remove)->header().revision(), 5);  // there was nothing
  EXPECT_EQ(state.Range(RangeOf("a/", "a0"))->kvs_size(), 1);
  const auto before = state.Range(RangeOf("a/", "a0", 3));
  ASSERT_EQ(before->kvs_size(), 2);
  EXPECT_EQ(before->kvs(0).value(), "x");
  EXPECT_EQ(before->header().revision(), 5);
  const auto first = state.Range(RangeOf("a/", "a0", 3, 1));
  EXPECT_EQ(first->kvs_size(), 1);
  EXPECT_TRUE(first->more());
  EXPECT_EQ(state.Find("a/1")->create_revision(), 2);
  EXPECT_EQ(state.Find("a/1")->mod_revision(), 4);
  ASSERT_TRUE(state.Compact(4).ok());
  EXPECT_TRUE(absl::IsOutOfRange(state.Range(RangeOf("a/1", "", 3)).status()));
  EXPECT_TRUE(absl::IsOutOfRange(state.Range(RangeOf("a/1", "", 6)).status()));
  EXPECT_TRUE(absl::IsOutOfRange(state.Compact(4)));
  EXPECT_EQ(state.Range(RangeOf("a/", "a0", 4))->kvs_size(), 2);
  EXPECT_TRUE(state.ChangedSince("a/1", 2)) << "nobody can tell any more";
  EXPECT_FALSE(state.ChangedSince("a/1", 5));
  EXPECT_TRUE(state.ChangedSince("a/2", 5));
}

// Would break: a fence still holds after its key was created anew.
TEST(EtcdState, ComparesWhatAKeyIs) {
  EtcdState state;
  const int64_t lease = state.Grant();
  rpc::TxnRequest fenced = PutOf("b", "1");
  rpc::Compare* const compare = fenced.add_compare();
  compare->set_key("k");
  compare->set_target(rpc::Compare::CREATE);
  compare->set_create_revision(0);
  EXPECT_TRUE(state.Txn(fenced)->succeeded());
  ASSERT_TRUE(state.Txn(PutOf("k", "v", lease)).ok());
  EXPECT_FALSE(state.Txn(fenced)->succeeded());
  compare->set_create_revision(3);
  EXPECT_TRUE(state.Txn(fenced)->succeeded());
  compare->set_target(rpc::Compare::LEASE);
  compare->set_lease(lease);
  EXPECT_TRUE(state.Txn(fenced)->succeeded());
  ASSERT_TRUE(state.EndLease(lease).ok());
  EXPECT_EQ(state.Find("k"), nullptr);
  EXPECT_FALSE(state.Txn(fenced)->succeeded());
  EXPECT_TRUE(absl::IsNotFound(state.Txn(PutOf("k", "v", lease)).status()));
  EXPECT_TRUE(absl::IsNotFound(state.EndLease(lease)));
  // A key that is put again without the lease outlives it.
  const int64_t other = state.Grant();
  ASSERT_TRUE(state.Txn(PutOf("k", "v", other)).ok());
  ASSERT_TRUE(state.Txn(PutOf("k", "w")).ok());
  ASSERT_TRUE(state.EndLease(other).ok());
  EXPECT_NE(state.Find("k"), nullptr);
}

// Would break: the store could send what a real etcd refuses.
TEST(EtcdState, RefusesWhatEtcdRefuses) {
  EtcdState state;
  rpc::TxnRequest twice = PutOf("a", "1");
  *twice.add_success() = twice.success(0);
  EXPECT_TRUE(absl::IsInvalidArgument(state.Txn(twice).status()));
  rpc::TxnRequest both = PutOf("a", "1");
  both.add_success()->mutable_request_delete_range()->set_key("a");
  EXPECT_TRUE(absl::IsInvalidArgument(state.Txn(both).status()));
  rpc::TxnRequest many;
  for (int i = 0; i < 129; ++i) *many.add_success() = PutOf(std::to_string(i), "").success(0);
  EXPECT_TRUE(absl::IsInvalidArgument(state.Txn(many).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(state.Txn(PutOf("a", std::string(size_t{2} << 20, 'x'))).status()));
  EXPECT_EQ(state.revision(), 1);
}

}  // namespace
}  // namespace atolld
