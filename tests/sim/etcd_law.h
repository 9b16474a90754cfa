// EtcdLaw: what must hold of a run's rows in a simulated etcd, whoever leads it, and what they are.
//
// - In each term only its leader's writes have effect, and each of them once.
// - A leader's term is over by its own clock when its lease is over.
// - An update is in etcd when Apply has said so, and what a leader reads is the sum of all updates
//   that have taken effect.
//
// It sees etcd's transactions as they take effect, so it knows of those as well whose answers were
// lost. The numbers of what is violated are those of the guarantees: 2 one history, 3 exactly once,
// 4 durability.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/coordinator/store.h"
#include "daemon/etcd/leadership.h"
#include "tests/sim/sim_etcd.h"

namespace atolld {

class EtcdLaw {
 public:
  using Violate = std::function<void(int invariant, const std::string& what)>;

  // `prefix`: of the run's keys, ends with '/'.
  EtcdLaw(SimEtcd& etcd, std::string prefix, Violate violate);

  // Hears each update when it takes effect, in order.
  void OnDurable(std::function<void(const RunUpdate&)> callback) {
    on_durable_ = std::move(callback);
  }

  // What all updates together are, with all headers.
  const StoredRun& stored() const { return rows_->run; }
  // Who holds the key; empty: nobody.
  std::string leader() const;
  uint64_t terms() const { return terms_; }

  // A leader's store, and what it says and does is judged. Both are of the process's present life.
  std::unique_ptr<Store> Watch(const std::string& who, std::shared_ptr<LeaderTerm> term,
                               std::unique_ptr<Store> store);

 private:
  class WatchedStore;
  struct Pending {  // a term's newest update; it may take effect when Apply has given it up
    RunUpdate update;
    bool in_parts = false;
    bool durable = true;
  };

  void OnWrite(const SimEtcd::Write& write);
  void CheckWriter(const SimEtcd::Write& write, const std::string& commit);
  void OnLeaseOver(int64_t lease);

  SimEtcd& etcd_;
  const std::string prefix_;
  const std::string leader_key_, authority_key_, commit_key_, parts_key_;
  const Violate violate_;
  std::function<void(const RunUpdate&)> on_durable_;
  const std::shared_ptr<MemoryStore::Disk> rows_ = std::make_shared<MemoryStore::Disk>();
  std::string leader_;  // who created the key the last time
  int64_t fence_ = 0;   // when
  uint64_t terms_ = 0;
  std::set<std::string> commits_;       // numbers of transactions that have taken effect
  std::map<int64_t, Pending> pending_;  // by the term's fence
  std::map<int64_t, std::weak_ptr<LeaderTerm>> terms_by_lease_;
};

}  // namespace atolld
