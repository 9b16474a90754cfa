#include "daemon/etcd/etcd_rows.h"

#include <algorithm>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/daemon/coordinator/stored_updates.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

// What etcd does with a batch, and what it refuses.
void Make(const EtcdBatch& batch, std::map<std::string, std::string>* keys) {
  ASSERT_LE(batch.operations.size(), size_t{kMostOperations});
  std::map<std::string, std::string> put;
  size_t bytes = 0;
  for (const rpc::RequestOp& one : batch.operations) {
    bytes += one.ByteSizeLong();
    if (one.has_request_put()) {
      ASSERT_TRUE(put.emplace(one.request_put().key(), one.request_put().value()).second)
          << "a key is put twice";
    }
  }
  ASSERT_LE(bytes, kLargestBatch);
  for (const rpc::RequestOp& one : batch.operations) {
    if (!one.has_request_delete_range()) continue;
    const std::string& from = one.request_delete_range().key();
    const std::string& end = one.request_delete_range().range_end();
    const auto touched = put.lower_bound(from);
    ASSERT_TRUE(touched == put.end() || touched->first >= end) << "a key is put and deleted";
    keys->erase(keys->lower_bound(from), keys->lower_bound(end));
  }
  for (const auto& [key, value] : put) (*keys)[key] = value;
}

StoredRun Read(const std::map<std::string, std::string>& keys) {
  StoredRun run;
  const auto read = [&](absl::string_view table, const RowAssembly::Take& take) {
    RowAssembly assembly(take);
    const std::string folder = TableFolder("p/", table);
    for (auto it = keys.lower_bound(folder); it != keys.lower_bound(PrefixEnd(folder)); ++it) {
      rpc::KeyValue pair;
      pair.set_key(it->first);
      pair.set_value(it->second);
      EXPECT_TRUE(assembly.Add(pair).ok());
    }
    EXPECT_TRUE(assembly.End().ok());
  };
  for (const absl::string_view table : LoadedTables()) {
    read(table, [&](const RowColumns& columns) { return TakeRow(table, columns, &run); });
  }
  read(kHeaderTable,
       [&](const RowColumns& columns) { return TakeHeader(columns, &run.headers.emplace_back()); });
  return run;
}

void MakeAll(const RunUpdate& update, std::map<std::string, std::string>* keys) {
  for (const EtcdBatch& batch : BatchesOf("p/", RowsOf(update))) Make(batch, keys);
}

// Would break: a store in etcd that holds something else than the embedded one.
TEST(EtcdRows, HoldWhatTheMemoryStoreHolds) {
  MemoryStore memory(std::make_shared<MemoryStore::Disk>());
  std::map<std::string, std::string> keys;
  for (const RunUpdate& update : StoredUpdates()) {
    MakeAll(update, &keys);
    ASSERT_TRUE(memory.Apply(update).ok());
    EXPECT_EQ(TextOf(Read(keys)), TextOf(Loaded(memory)));
  }
}

// Would break: the law that a round and a change of the roster take one transaction each.
TEST(EtcdRows, ARoundIsOneTransaction) {
  RunUpdate commit = StoredUpdates()[3];
  commit.members.clear();
  commit.forgotten.clear();
  for (uint64_t i = 0; i < 3000; ++i) commit.leases->ranges.push_back({"a peer", 40 * i, 20});
  EXPECT_EQ(BatchesOf("p/", RowsOf(commit)).size(), 1u);
  RunUpdate join;
  join.members = {{"b", "b:2", "live"}};
  EXPECT_EQ(BatchesOf("p/", RowsOf(join)).size(), 1u);
}

// Would break: an adoption of many headers, and a header of a crowd, which etcd refuses.
TEST(EtcdRows, WhatIsTooMuchForOneTransactionIsSeveral) {
  RunUpdate adopted;
  for (uint64_t version = 1; version <= 256; ++version) {
    adopted.headers.push_back(StoredHeader(version));
  }
  adopted.headers[7].set_signature(std::string(3 * kLargestPart + 5, 's'));
  EXPECT_GE(BatchesOf("p/", RowsOf(adopted)).size(), 4u);
  std::map<std::string, std::string> keys;
  MakeAll(adopted, &keys);
  const StoredRun run = Read(keys);
  ASSERT_EQ(run.headers.size(), 256u);
  EXPECT_EQ(run.headers[7].SerializeAsString(), adopted.headers[7].SerializeAsString());
  EXPECT_EQ(run.headers[255].version(), 256u);
}

// Would break: a row that was long and is short is read with its old end; half a row is taken.
TEST(EtcdRows, TheRestOfALongerRowIsNoPartOfAShorterOne) {
  RunUpdate update;
  update.members = {{"a", std::string(2 * kLargestPart, 'x'), "live"}, {"b", "", "live"}};
  std::map<std::string, std::string> keys;
  MakeAll(update, &keys);
  EXPECT_EQ(Read(keys).members.size(), 2u);
  std::map<std::string, std::string> torn = keys;
  torn.erase(std::prev(torn.lower_bound(RowKey("p/", "members", std::string("b")))));
  RowAssembly assembly([](const RowColumns&) { return absl::OkStatus(); });
  absl::Status status;
  for (const auto& [key, value] : torn) {
    rpc::KeyValue pair;
    pair.set_key(key);
    pair.set_value(value);
    if (status.ok()) status = assembly.Add(pair);
  }
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  update.members = {{"a", "short", "live"}};
  MakeAll(update, &keys);
  ASSERT_EQ(Read(keys).members.size(), 2u);
  EXPECT_EQ(Read(keys).members[0].address, "short");
  RunUpdate forget;
  forget.forgotten = {"a"};
  MakeAll(forget, &keys);
  EXPECT_EQ(keys.size(), 1u);  // b
}

}  // namespace
}  // namespace atolld
