// EtcdState: the content of an etcd, which is keys with all their revisions, and leases. It behaves
// as etcd's documentation says, for the calls that daemon/etcd makes.
//
// Requests take effect one after another in one state, so it is linearizable. The caller keeps the
// time: a lease ends when the caller says so. Errors are etcd's own. No I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "etcd/rpc.pb.h"

namespace atolld {

class EtcdState {
 public:
  int64_t revision() const { return revision_; }

  // Fails with OUT_OF_RANGE if that revision was compacted or does not exist yet.
  absl::StatusOr<etcdserverpb::RangeResponse> Range(
      const etcdserverpb::RangeRequest& request) const;
  // Fails with INVALID_ARGUMENT if there are too many operations, the request is too large, or a
  // key is put twice, and with NOT_FOUND if a lease does not exist. A transaction that fails
  // changes nothing.
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request);
  // Fails with OUT_OF_RANGE as Range does.
  absl::Status Compact(int64_t revision);

  int64_t Grant();
  bool HasLease(int64_t lease) const { return leases_.count(lease) > 0; }
  // Ends a lease and deletes its keys. Fails with NOT_FOUND if there is no such lease.
  absl::Status EndLease(int64_t lease);

  // Returns the newest version of the key; null if the key does not exist.
  const etcdserverpb::KeyValue* Find(const std::string& key) const;
  // Returns true if the key has changed in that revision or later, or if this is no longer known.
  bool ChangedSince(const std::string& key, int64_t revision) const;

 private:
  struct Version {
    int64_t revision;
    std::optional<etcdserverpb::KeyValue> pair;  // Not set if the key was deleted.
  };

  const Version* At(const std::vector<Version>& versions, int64_t revision) const;
  bool Holds(const etcdserverpb::Compare& compare) const;
  absl::Status CheckOperations(const etcdserverpb::TxnRequest& request, bool succeeded) const;
  void Put(const etcdserverpb::PutRequest& request, int64_t revision);
  bool Delete(const std::string& key, int64_t revision);

  int64_t revision_ = 1;
  int64_t compacted_ = 0;
  int64_t last_lease_ = 0;
  std::map<std::string, std::vector<Version>> keys_;  // In ascending order of revisions.
  std::map<int64_t, std::set<std::string>> leases_;   // The keys of each lease.
};

}  // namespace atolld
