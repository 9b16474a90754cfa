#include "daemon/coordinator/run_move.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/coordinator/history_check.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

// Rows that are written in one call: some transactions' worth, with little memory.
constexpr size_t kMostRows = 1000;
constexpr size_t kMostBytes = size_t{4} << 20;

using Mark = std::optional<v1::StoreMark>;

std::vector<absl::string_view> AllTables() {
  std::vector<absl::string_view> tables = LoadedTables();
  tables.push_back(kHeaderTable);
  return tables;
}

// A digest over the rows of a table, in their order.
class TableSum {
 public:
  explicit TableSum(absl::string_view table) : digest_(table) {}

  void Add(const RowColumns& columns) {
    ++rows_;
    digest_.U64(columns.size());
    for (const RowValue& value : columns) {
      const auto* number = std::get_if<uint64_t>(&value);
      digest_.U64(number != nullptr ? 1 : 0);
      if (number != nullptr) {
        digest_.U64(*number);
        bytes_ += sizeof(*number);
      } else {
        digest_.Bytes(std::get<std::string>(value));
        bytes_ += std::get<std::string>(value).size();
      }
    }
  }

  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return bytes_; }
  Digest Finish() { return digest_.Finish(); }

 private:
  DigestBuilder digest_;
  uint64_t rows_ = 0, bytes_ = 0;
};

struct CopiedTable {
  uint64_t rows = 0;
  Digest digest = {};
};

// One move, step by step.
class Move {
 public:
  Move(TableStore& from, TableStore& to, const MoveOrder& order)
      : from_(from), to_(to), order_(order), move_(order.move) {}

  absl::StatusOr<MoveReport> Run() {
    ASSIGN_OR_RETURN(from_mark_, from_.ReadMark());
    ASSIGN_OR_RETURN(to_mark_, to_.ReadMark());
    RETURN_IF_ERROR(CheckMarks());
    RETURN_IF_ERROR(CheckSource());
    RETURN_IF_ERROR(CheckTarget());
    const v1::StoreMark arriving = MarkOf(v1::StoreMark::ARRIVING, from_.where());
    RETURN_IF_ERROR(to_.WriteMark(&arriving));
    RETURN_IF_ERROR(to_.RemoveRows());
    for (const absl::string_view table : AllTables()) RETURN_IF_ERROR(Copy(table));
    for (const absl::string_view table : AllTables()) RETURN_IF_ERROR(Compare(table));
    RETURN_IF_ERROR(CheckCopy());
    const v1::StoreMark moved = MarkOf(v1::StoreMark::MOVED, to_.where());
    RETURN_IF_ERROR(from_.WriteMark(&moved));
    RETURN_IF_ERROR(to_.WriteMark(nullptr));
    return report_;
  }

 private:
  void Tell(absl::string_view doing, uint64_t done = 0, uint64_t total = 0) const {
    if (order_.on_progress) order_.on_progress(doing, done, total);
  }

  v1::StoreMark MarkOf(v1::StoreMark::Kind kind, const std::string& other) const {
    v1::StoreMark mark;
    mark.set_kind(kind);
    mark.set_move(move_);
    mark.set_run_id(report_.run_id);
    mark.set_other(other);
    mark.set_at_unix(absl::ToUnixSeconds(order_.now));
    mark.set_version(report_.version);
    return mark;
  }

  bool IsArriving() const { return to_mark_ && to_mark_->kind() == v1::StoreMark::ARRIVING; }

  // A source that has a mark is one that was marked right before this move was cut short.
  absl::Status CheckMarks() {
    if (!from_mark_) return absl::OkStatus();
    if (from_mark_->kind() != v1::StoreMark::MOVED || !IsArriving() ||
        from_mark_->move() != to_mark_->move()) {
      return MarkFault(*from_mark_, from_.where());
    }
    move_ = from_mark_->move();
    return absl::OkStatus();
  }

  absl::Status CheckSource() {
    Tell(absl::StrCat("checking ", from_.where()));
    ASSIGN_OR_RETURN(source_, from_.LoadTables());
    if (!source_.spec) {
      return absl::NotFoundError(absl::StrCat(from_.where(), ": it holds no run"));
    }
    report_.run_id = source_.spec->run_id();
    if (!order_.run_id.empty() && order_.run_id != report_.run_id) {
      return absl::FailedPreconditionError(absl::StrCat(from_.where(), ": it holds run ",
                                                        report_.run_id, ", and [run] id names ",
                                                        order_.run_id));
    }
    ASSIGN_OR_RETURN(const HistoryCheck check, CheckWhole(from_, &source_));
    report_.headers = check.headers;
    report_.version = source_.version();
    return absl::OkStatus();
  }

  static absl::StatusOr<HistoryCheck> CheckWhole(TableStore& store, StoredRun* run) {
    absl::StatusOr<HistoryCheck> check = CheckHistory(store, HistoryExtent::kWhole, run);
    if (!check.ok()) return Annotate(check.status(), store.where());
    if (!check->unfit.empty()) {
      return absl::DataLossError(absl::StrCat(store.where(), ": ", check->unfit));
    }
    return check;
  }

  absl::Status CheckTarget() {
    if (IsArriving()) {
      if (to_mark_->run_id() == report_.run_id) return absl::OkStatus();
      return MarkFault(*to_mark_, to_.where());
    }
    ASSIGN_OR_RETURN(const StoredRun target, to_.LoadTables());
    ASSIGN_OR_RETURN(const auto headers, to_.ReadHeaders(0, 1));
    if (!target.spec && !target.genesis && headers.empty()) return absl::OkStatus();
    const std::string held = target.spec ? target.spec->run_id() : "without a name";
    if (!to_mark_) {
      return absl::AlreadyExistsError(
          absl::StrCat(to_.where(), ": it holds run ", held, " already; nothing is overwritten"));
    }
    return CheckFormer(target);
  }

  // The run of before, which was moved away from there, gives way to what has become of it.
  absl::Status CheckFormer(const StoredRun& target) {
    ASSIGN_OR_RETURN(const bool continued, IsContinued(target));
    if (continued) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat(
        to_.where(), ": run ", to_mark_->run_id(), ", which has moved from there at version ",
        to_mark_->version(), ", does not go on in ", from_.where(), "; nothing is overwritten"));
  }

  absl::StatusOr<bool> IsContinued(const StoredRun& target) {
    const auto bytes = [](const auto& message) {
      return message ? message->SerializeAsString() : std::string();
    };
    if (bytes(target.spec) != bytes(source_.spec)) return false;
    if (target.genesis && bytes(target.genesis) != bytes(source_.genesis)) return false;
    const uint64_t version = to_mark_->version();
    ASSIGN_OR_RETURN(const auto theirs, to_.ReadHeaders(version, 1));
    ASSIGN_OR_RETURN(const auto ours, from_.ReadHeaders(version, 1));
    if (theirs.empty()) return version == 0;
    return !ours.empty() && ours[0].SerializeAsString() == theirs[0].SerializeAsString();
  }

  absl::Status Copy(absl::string_view table) {
    TableSum sum(table);
    std::vector<RowChange> rows;
    size_t bytes = 0;
    const bool whole = IsWrittenWhole(table);
    if (whole) rows.push_back({RowChange::Kind::kClear, table});
    absl::Status written;  // an error of the target's, which the source would take for its own
    const absl::Status read = from_.ReadTable(table, [&](const RowColumns& columns) {
      const uint64_t before = sum.bytes();
      sum.Add(columns);
      bytes += sum.bytes() - before;
      rows.push_back({RowChange::Kind::kReplace, table, columns});
      if (whole || (rows.size() < kMostRows && bytes < kMostBytes)) return absl::OkStatus();
      bytes = 0;
      if (table == kHeaderTable) Tell("copying headers", sum.rows(), report_.headers);
      written = to_.WriteRows(std::exchange(rows, {}));
      return written;
    });
    RETURN_IF_ERROR(written);
    RETURN_IF_ERROR(read);
    if (!rows.empty()) RETURN_IF_ERROR(to_.WriteRows(rows));
    copied_[table] = {sum.rows(), sum.Finish()};
    report_.rows += sum.rows();
    report_.bytes += sum.bytes();
    return absl::OkStatus();
  }

  absl::Status Compare(absl::string_view table) {
    Tell(absl::StrCat("comparing ", table));
    TableSum sum(table);
    RETURN_IF_ERROR(to_.ReadTable(table, [&](const RowColumns& columns) {
      sum.Add(columns);
      return absl::OkStatus();
    }));
    const CopiedTable& copied = copied_[table];
    const uint64_t rows = sum.rows();
    if (rows == copied.rows && sum.Finish() == copied.digest) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(to_.where(), ": of the ", copied.rows, " rows of ",
                                            table, " that were written, ", rows,
                                            " are there, or they differ"));
  }

  absl::Status CheckCopy() {
    Tell(absl::StrCat("checking ", to_.where()));
    ASSIGN_OR_RETURN(StoredRun copy, to_.LoadTables());
    ASSIGN_OR_RETURN(const HistoryCheck check, CheckWhole(to_, &copy));
    if (check.headers == report_.headers && copy.version() == report_.version) {
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(
        to_.where(), ": it holds ", check.headers, " headers up to version ", copy.version(),
        ", and ", report_.headers, " up to ", report_.version, " were copied"));
  }

  TableStore& from_;
  TableStore& to_;
  const MoveOrder& order_;
  std::string move_;
  Mark from_mark_, to_mark_;
  StoredRun source_;
  std::map<absl::string_view, CopiedTable> copied_;
  MoveReport report_;
};

}  // namespace

absl::StatusOr<MoveReport> MoveRun(TableStore& from, TableStore& to, const MoveOrder& order) {
  return Move(from, to, order).Run();
}

absl::StatusOr<v1::StoreMark> UndoMove(TableStore& store) {
  ASSIGN_OR_RETURN(const Mark mark, store.ReadMark());
  if (!mark) {
    return absl::FailedPreconditionError(
        absl::StrCat(store.where(),
                     ": there is nothing to undo: no run was moved from there, and no copy of "
                     "one was begun there"));
  }
  if (mark->kind() != v1::StoreMark::MOVED) RETURN_IF_ERROR(store.RemoveRows());
  RETURN_IF_ERROR(store.WriteMark(nullptr));
  return *mark;
}

}  // namespace atolld
