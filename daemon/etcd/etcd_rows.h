// The form of a coordinator's rows in etcd: the key and the value of a row, and the requests that
// make an update.
//
// A row has one key, "PREFIXrows/TABLE/KEY". All rows of a table that is always written as a
// whole share one key, "PREFIXrows/TABLE/all", so that writing it takes one request. Whole numbers
// are written with twenty digits, so that the keys sort in the order of the numbers. A value larger
// than kLargestPart continues under the keys "...+0001", "...+0002" and so on. The functions are
// pure and may be called from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/coordinator/store_rows.h"
#include "etcd/rpc.pb.h"

namespace atolld {

// Limits of a value's part and of a transaction. etcd refuses requests above 1.5 MiB and
// transactions of more than 128 operations (--max-request-bytes and --max-txn-ops); these limits
// leave room for the rest of the request.
inline constexpr size_t kLargestPart = size_t{512} << 10;
inline constexpr size_t kLargestBatch = size_t{1} << 20;
inline constexpr int kMostOperations = 100;

// Operations, in order, that fit into one transaction.
struct EtcdBatch {
  std::vector<etcdserverpb::RequestOp> operations;
  std::vector<std::string> fresh;  // The keys that must not exist yet.
  size_t bytes = 0;
};

// Returns the end of the range of all keys that begin with `prefix`. `prefix` must end with '/'.
std::string PrefixEnd(std::string prefix);
// Returns the common prefix of a table's keys, which ends with '/'.
std::string TableFolder(absl::string_view prefix, absl::string_view table);
// Returns the key of a table's row.
std::string RowKey(absl::string_view prefix, absl::string_view table, const RowValue& key);

// Returns the batches that make these changes. There are several batches if the changes are too
// many or too large for one transaction, or change one key twice, which a transaction must not do.
// `prefix` ends with '/'.
std::vector<EtcdBatch> BatchesOf(absl::string_view prefix, const std::vector<RowChange>& changes);

// Reassembles the rows of a table from its keys, which must come in order.
class RowAssembly {
 public:
  using Take = std::function<absl::Status(const RowColumns&)>;
  explicit RowAssembly(Take take) : take_(std::move(take)) {}

  // Adds the next key. Fails with DATA_LOSS if the value was not written by a store; the message
  // names the key. Errors of `take` are returned.
  absl::Status Add(const etcdserverpb::KeyValue& pair);
  // Called after the last key. Fails with DATA_LOSS if the last row is incomplete.
  absl::Status End() const;

 private:
  absl::Status Deliver();

  const Take take_;
  std::string key_;  // The key of the row that is being reassembled.
  std::string bytes_;
  uint32_t more_ = 0;  // The number of keys that the row still lacks.
};

}  // namespace atolld
