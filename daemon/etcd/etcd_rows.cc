#include "daemon/etcd/etcd_rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "atoll/v1/store.pb.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

using Kind = RowChange::Kind;

// Precedes the number of a part: no key of a row contains it or a smaller character.
constexpr char kPartMark = '+';

// The only key of a table that is written whole.
constexpr char kWhole[] = "all";

std::string PartKey(const std::string& key, size_t part) {
  return part == 0 ? key : absl::StrFormat("%s%c%04x", key, kPartMark, part);
}

void AddRow(const RowColumns& columns, v1::StoredRows* rows) {
  v1::StoredRow* const row = rows->add_rows();
  for (const RowValue& value : columns) {
    v1::StoredColumn* const column = row->add_columns();
    if (const auto* number = std::get_if<uint64_t>(&value)) {
      column->set_number(*number);
    } else {
      column->set_text(std::get<std::string>(value));
    }
  }
}

// Puts operations into batches.
class BatchMaker {
 public:
  explicit BatchMaker(absl::string_view prefix) : prefix_(prefix) {}

  void Put(const std::string& key, const v1::StoredRows& rows, bool fresh) {
    const std::string bytes = rows.SerializeAsString();
    const size_t parts = std::max<size_t>(1, (bytes.size() + kLargestPart - 1) / kLargestPart);
    for (size_t i = 0; i < parts; ++i) {
      v1::StoredValue value;
      if (i == 0) value.set_more(static_cast<uint32_t>(parts - 1));
      value.set_bytes(bytes.substr(i * kLargestPart, kLargestPart));
      rpc::RequestOp operation;
      operation.mutable_request_put()->set_key(PartKey(key, i));
      operation.mutable_request_put()->set_value(value.SerializeAsString());
      Add(std::move(operation), PartKey(key, i), "");
    }
    if (fresh) batches_.back().fresh.push_back(key);
  }

  void Delete(const std::string& key, const std::string& end) {
    rpc::RequestOp operation;
    operation.mutable_request_delete_range()->set_key(key);
    operation.mutable_request_delete_range()->set_range_end(end);
    Add(std::move(operation), key, end);
  }

  void Make(const RowChange& change) {
    const std::string folder = TableFolder(prefix_, change.table);
    if (change.kind == Kind::kClear) return Delete(folder, PrefixEnd(folder));
    const std::string key = RowKey(prefix_, change.table, change.columns[0]);
    if (change.kind == Kind::kRemove) {
      return Delete(key, absl::StrCat(key, std::string(1, kPartMark + 1)));
    }
    if (change.kind == Kind::kRemoveFrom) return Delete(key, PrefixEnd(folder));
    v1::StoredRows rows;
    AddRow(change.columns, &rows);
    Put(key, rows, change.kind == Kind::kInsert);
  }

  std::vector<EtcdBatch> Done() { return std::move(batches_); }

 private:
  void Add(rpc::RequestOp operation, const std::string& key, const std::string& end) {
    const size_t bytes = operation.ByteSizeLong();
    if (batches_.empty() || batches_.back().operations.size() >= size_t{kMostOperations} ||
        batches_.back().bytes + bytes > kLargestBatch || Touches(key, end)) {
      batches_.emplace_back();
      put_.clear();
      deleted_.clear();
    }
    if (end.empty()) {
      put_.insert(key);
    } else {
      deleted_.emplace_back(key, end);
    }
    batches_.back().bytes += bytes;
    batches_.back().operations.push_back(std::move(operation));
  }

  // Returns true if the batch has an operation on this key or range.
  bool Touches(const std::string& key, const std::string& end) const {
    if (!end.empty()) {
      const auto first = put_.lower_bound(key);
      return first != put_.end() && *first < end;
    }
    return put_.count(key) != 0 ||
           std::any_of(deleted_.begin(), deleted_.end(),
                       [&](const auto& range) { return range.first <= key && key < range.second; });
  }

  const absl::string_view prefix_;
  std::vector<EtcdBatch> batches_;
  // Keys of the last batch.
  std::set<std::string> put_;
  std::vector<std::pair<std::string, std::string>> deleted_;
};

}  // namespace

std::string PrefixEnd(std::string prefix) {
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

std::string TableFolder(absl::string_view prefix, absl::string_view table) {
  return absl::StrCat(prefix, "rows/", table, "/");
}

std::string RowKey(absl::string_view prefix, absl::string_view table, const RowValue& key) {
  const auto* number = std::get_if<uint64_t>(&key);
  return absl::StrCat(TableFolder(prefix, table), number != nullptr
                                                      ? absl::StrFormat("%020d", *number)
                                                      : std::get<std::string>(key));
}

std::vector<EtcdBatch> BatchesOf(absl::string_view prefix, const std::vector<RowChange>& changes) {
  BatchMaker maker(prefix);
  std::map<absl::string_view, v1::StoredRows> whole;
  for (const RowChange& change : changes) {
    if (!IsWrittenWhole(change.table)) {
      maker.Make(change);
    } else if (change.kind == Kind::kClear) {
      whole[change.table].Clear();
    } else {
      AddRow(change.columns, &whole[change.table]);
    }
  }
  for (const auto& [table, rows] : whole) {
    maker.Put(absl::StrCat(TableFolder(prefix, table), kWhole), rows, false);
  }
  return maker.Done();
}

absl::Status RowAssembly::Add(const rpc::KeyValue& pair) {
  v1::StoredValue value;
  if (!value.ParseFromString(pair.value())) {
    return absl::DataLossError(absl::StrCat(pair.key(), " cannot be read"));
  }
  const std::string& key = pair.key();
  const size_t mark = key.rfind(kPartMark);
  if (mark != std::string::npos) {
    // Belongs to a row that was once larger, or continues this one.
    if (more_ == 0) return absl::OkStatus();
    if (key.compare(0, mark, key_) != 0) return End();
    bytes_ += value.bytes();
    return --more_ == 0 ? Deliver() : absl::OkStatus();
  }
  if (more_ > 0) return End();
  key_ = key;
  bytes_ = value.bytes();
  more_ = value.more();
  return more_ == 0 ? Deliver() : absl::OkStatus();
}

absl::Status RowAssembly::End() const {
  return more_ == 0 ? absl::OkStatus() : absl::DataLossError(absl::StrCat(key_, " is not whole"));
}

absl::Status RowAssembly::Deliver() {
  v1::StoredRows rows;
  if (!rows.ParseFromString(bytes_)) {
    return absl::DataLossError(absl::StrCat(key_, " cannot be read"));
  }
  for (const v1::StoredRow& row : rows.rows()) {
    RowColumns columns;
    for (const v1::StoredColumn& column : row.columns()) {
      if (column.value_case() == v1::StoredColumn::kNumber) {
        columns.emplace_back(uint64_t{column.number()});
      } else {
        columns.emplace_back(column.text());
      }
    }
    absl::Status taken = take_(columns);
    if (!taken.ok()) return taken;
  }
  return absl::OkStatus();
}

}  // namespace atolld
