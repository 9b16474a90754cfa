// EtcdLaw: checks what must hold for a run's rows in a simulated etcd whichever coordinator leads,
// and knows what those rows contain.
//
// - In each term only the leader's writes take effect, and each takes effect once.
// - A leader's term ends by its own clock when its lease ends.
// - Once Apply has returned OK, the update is in etcd. A leader reads the sum of all updates that
//   have taken effect.
//
// EtcdLaw sees etcd's transactions as they take effect, including those whose answers were lost.
// Violations carry the numbers of the guarantees: 2 one history, 3 exactly once, 4 durability.
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

  // `prefix` is the prefix of the run's keys and ends with '/'.
  EtcdLaw(SimEtcd& etcd, std::string prefix, Violate violate);

  // Sets the function that is called with each update, in order, when the update takes effect.
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
  struct Pending {  // The newest update of a term. It may take effect after Apply has given up.
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
  int64_t fence_ = 0;   // The revision at which that process created it.
  uint64_t terms_ = 0;
  std::set<std::string> commits_;       // The numbers of transactions that have taken effect.
  std::map<int64_t, Pending> pending_;  // By the term's fence.
  std::map<int64_t, std::weak_ptr<LeaderTerm>> terms_by_lease_;
};

}  // namespace atolld
