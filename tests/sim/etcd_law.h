// EtcdLaw: what must hold of a run's rows in a simulated etcd, whichever coordinator leads, and
// what those rows contain.
//
// - In each term only its leader's writes take effect, each of them once.
// - A leader's term ends by its own clock when its lease ends.
// - An update is in etcd once Apply has said so, and what a leader reads is the sum of all updates
//   that have taken effect.
//
// It sees etcd's transactions as they take effect, and so also those of which the answers were
// lost. The numbers of violations are those of the guarantees: 2 one history, 3 exactly once, 4
// durability.
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

  // `prefix` is that of the run's keys and ends with '/'.
  EtcdLaw(SimEtcd& etcd, std::string prefix, Violate violate);

  // Sets what is called with each update when it takes effect, in order.
  void OnDurable(std::function<void(const RunUpdate&)> callback) {
    on_durable_ = std::move(callback);
  }

  // Returns the sum of all updates, with all headers.
  const StoredRun& stored() const { return rows_->run; }
  // Returns the holder of the leader key; empty if there is none.
  std::string leader() const;
  uint64_t terms() const { return terms_; }

  // Wraps a leader's store, so that its calls and results are checked. `term` and `store` belong to
  // the process's present life.
  std::unique_ptr<Store> Watch(const std::string& who, std::shared_ptr<LeaderTerm> term,
                               std::unique_ptr<Store> store);

 private:
  class WatchedStore;
  struct Pending {  // The newest update of a term; it may take effect after Apply has given up.
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
  std::string leader_;  // The last process that created the key.
  int64_t fence_ = 0;   // When it did.
  uint64_t terms_ = 0;
  std::set<std::string> commits_;       // The numbers of transactions that have taken effect.
  std::map<int64_t, Pending> pending_;  // By the term's fence.
  std::map<int64_t, std::weak_ptr<LeaderTerm>> terms_by_lease_;
};

}  // namespace atolld
