// EtcdState: what an etcd holds - keys with all their revisions, and leases - as its documentation
// has it, for the calls that daemon/etcd makes.
//
// One state in which requests take effect one after another, so it is linearizable. Time is the
// caller's: a lease ends when it is told so. Errors are etcd's own. Pure.
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

  // OUT_OF_RANGE: that revision is compacted, or yet to come.
  absl::StatusOr<etcdserverpb::RangeResponse> Range(
      const etcdserverpb::RangeRequest& request) const;
  // INVALID_ARGUMENT: too many operations, too large, or one key is put twice. NOT_FOUND: no such
  // lease. Then nothing of it is done.
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request);
  // OUT_OF_RANGE as Range.
  absl::Status Compact(int64_t revision);

  int64_t Grant();
  bool HasLease(int64_t lease) const { return leases_.count(lease) > 0; }
  // With its keys. NOT_FOUND: there is none.
  absl::Status EndLease(int64_t lease);

  // The newest; null: it is not there.
  const etcdserverpb::KeyValue* Find(const std::string& key) const;
  // Whether the key has changed in that revision or later; also if nobody can tell any more.
  bool ChangedSince(const std::string& key, int64_t revision) const;

 private:
  struct Version {
    int64_t revision;
    std::optional<etcdserverpb::KeyValue> pair;  // none: deleted
  };

  const Version* At(const std::vector<Version>& versions, int64_t revision) const;
  bool Holds(const etcdserverpb::Compare& compare) const;
  absl::Status CheckOperations(const etcdserverpb::TxnRequest& request, bool succeeded) const;
  void Put(const etcdserverpb::PutRequest& request, int64_t revision);
  bool Delete(const std::string& key, int64_t revision);

  int64_t revision_ = 1;
  int64_t compacted_ = 0;
  int64_t last_lease_ = 0;
  std::map<std::string, std::vector<Version>> keys_;  // ascending revisions
  std::map<int64_t, std::set<std::string>> leases_;   // their keys
};

}  // namespace atolld
