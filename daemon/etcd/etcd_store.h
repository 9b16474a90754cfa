// EtcdStore: the Store of a run that several coordinators look after, in etcd.
//
// Every write is a transaction that holds only while this coordinator leads (LeaderTerm), so a
// former leader can change nothing. An update is one transaction, as a round and a change of the
// roster are. One that is too large for that is written beside the rows first, then decided by one
// transaction, then carried out; a leader that dies in between leaves the rest to the next one's
// Load. Old revisions are compacted as it goes, so etcd's memory is bounded by the rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/coordinator/table_store.h"
#include "daemon/etcd/etcd_client.h"
#include "daemon/etcd/etcd_rows.h"
#include "daemon/etcd/leadership.h"

namespace atolld {

class EtcdStore final : public TableStore {
 public:
  // `prefix` ends with '/'. Without a term it only reads: as it is at one instant.
  EtcdStore(EtcdAccess access, std::string prefix, std::shared_ptr<LeaderTerm> term);

  // Whatever reads: UNAVAILABLE, etcd cannot be asked; ABORTED, the term is over. Whatever writes
  // tries until the term is over; ALREADY_EXISTS: a row that is to be new is there.
  absl::Status Apply(const RunUpdate& update) override;
  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first, uint32_t limit) override;
  std::string where() const override { return where_; }
  absl::Status ReadTable(absl::string_view table, const TakeColumns& take) override;
  absl::StatusOr<std::optional<v1::StoreMark>> ReadMark() override;
  absl::Status WriteMark(const v1::StoreMark* mark) override;
  absl::Status WriteRows(const std::vector<RowChange>& changes) override;
  absl::Status RemoveRows() override;

 protected:
  absl::Status PrepareToRead() override;

 private:
  absl::Status Commit(const std::vector<etcdserverpb::RequestOp>& operations,
                      const std::vector<std::string>& fresh);
  // Of the newest transaction, as this leader found it.
  absl::StatusOr<std::string> FindLastCommit();
  absl::Status CommitByParts(const std::vector<EtcdBatch>& batches);
  absl::Status FinishParts();
  absl::Status CarryOut(uint64_t parts);
  absl::StatusOr<etcdserverpb::RangeResponse> Read(const etcdserverpb::RangeRequest& request);
  // Until `most` rows were taken, or `end` is reached.
  absl::Status ReadRows(const std::string& from, const std::string& end, uint64_t most,
                        const RowAssembly::Take& take);
  void CompactNowAndThen();

  const std::string prefix_;
  const std::string where_;
  const std::shared_ptr<LeaderTerm> term_;
  EtcdClient client_;
  // The number of the newest transaction, empty before the first one; as it was read or written. A
  // transaction holds only where it is the next: a try that was given up may still arrive.
  std::optional<std::string> last_commit_;
  uint64_t commits_ = 0;       // of this term
  uint64_t compacted_ = 0;     // of those, when it last compacted
  int64_t revision_ = 0;       // of the last one
  int64_t read_revision_ = 0;  // at which everything is read; 0: now
};

}  // namespace atolld
