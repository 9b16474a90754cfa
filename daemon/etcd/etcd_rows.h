// How the rows of a coordinator's store lie in etcd: which key and value a row has, and which
// requests make an update.
//
// A row is one key, "PREFIXrows/TABLE/KEY"; a table that is always written whole is one key too,
// so that it takes one request. Whole numbers are twenty digits, so that keys sort as they do. A
// value larger than kLargestPart goes on under the keys "...+0001" and so on. Pure functions, any
// thread.
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

// etcd refuses requests above 1.5 MiB, and transactions of more than 128 operations
// (--max-request-bytes and --max-txn-ops); both limits leave room for what goes with them.
inline constexpr size_t kLargestPart = size_t{512} << 10;
inline constexpr size_t kLargestBatch = size_t{1} << 20;
inline constexpr int kMostOperations = 100;

// Operations that one transaction can hold, in order.
struct EtcdBatch {
  std::vector<etcdserverpb::RequestOp> operations;
  std::vector<std::string> fresh;  // keys that must not be there yet
  size_t bytes = 0;
};

// The end of the range that holds the keys that begin so; `prefix` ends with '/'.
std::string PrefixEnd(std::string prefix);
// The folder of a table's keys.
std::string TableFolder(absl::string_view prefix, absl::string_view table);
// The key of the row of a table.
std::string RowKey(absl::string_view prefix, absl::string_view table, const RowValue& key);

// What makes these changes: one batch, or several where they are too many or too large for one, or
// touch one key twice, which a transaction may not. `prefix` ends with '/'.
std::vector<EtcdBatch> BatchesOf(absl::string_view prefix, const std::vector<RowChange>& changes);

// Puts the rows of a table together again from its keys, which come in order.
class RowAssembly {
 public:
  using Take = std::function<absl::Status(const RowColumns&)>;
  explicit RowAssembly(Take take) : take_(std::move(take)) {}

  // DATA_LOSS names the key that is no value of a store. Errors of `take` are passed on.
  absl::Status Add(const etcdserverpb::KeyValue& pair);
  // DATA_LOSS: the last row is not whole.
  absl::Status End() const;

 private:
  absl::Status Deliver();

  const Take take_;
  std::string key_;  // of the row that is being put together
  std::string bytes_;
  uint32_t more_ = 0;  // keys that it lacks
};

}  // namespace atolld
