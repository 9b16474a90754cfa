// EtcdStore: a Store in etcd, for a run with several coordinators.
//
// Every write is a transaction that takes effect only while this coordinator leads (LeaderTerm), so
// a former leader can change nothing. An update, such as a round or a change of the roster, is one
// transaction. An update that is too large for one transaction is first written beside the rows,
// then made valid by one transaction, and then carried out; if the leader dies in between, the next
// leader's Load completes it. Old revisions are compacted from time to time, so etcd's memory is
// proportional to the rows.
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
  // `prefix` ends with '/'. If `term` is null, the store can only be read, and shows the state at
  // one moment.
  EtcdStore(EtcdAccess access, std::string prefix, std::shared_ptr<LeaderTerm> term);

  // Reading functions fail with UNAVAILABLE if etcd does not answer, and with ABORTED if the term
  // has ended. Writing functions retry until the term has ended; they fail with ALREADY_EXISTS if a
  // row that should be new exists.
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
  // Reads the id of the newest transaction from etcd; it is empty if there is none.
  absl::StatusOr<std::string> FindLastCommit();
  absl::Status CommitByParts(const std::vector<EtcdBatch>& batches);
  absl::Status FinishParts();
  absl::Status CarryOut(uint64_t parts);
  absl::StatusOr<etcdserverpb::RangeResponse> Read(const etcdserverpb::RangeRequest& request);
  // Reads rows until `most` rows were taken or the key `end` is reached.
  absl::Status ReadRows(const std::string& from, const std::string& end, uint64_t most,
                        const RowAssembly::Take& take);
  void CompactNowAndThen();

  const std::string prefix_;
  const std::string where_;
  const std::shared_ptr<LeaderTerm> term_;
  EtcdClient client_;
  // The number of the newest transaction, as it was read or written; empty before the first one. A
  // transaction takes effect only if its number is the next one, because a try that was given up
  // may still reach etcd.
  std::optional<std::string> last_commit_;
  uint64_t commits_ = 0;       // The number of transactions in this term.
  uint64_t compacted_ = 0;     // The value of commits_ at the last compaction.
  int64_t revision_ = 0;       // The revision of the last transaction.
  int64_t read_revision_ = 0;  // The revision at which everything is read; 0 means the newest.
};

}  // namespace atolld
