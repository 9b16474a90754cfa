#include "daemon/coordinator/store_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

using Kind = RowChange::Kind;

// The names of single values; stores keep them, so they never change.
constexpr char kSpec[] = "spec", kEpoch[] = "epoch", kStarted[] = "started", kGenesis[] = "genesis",
               kLeaseNext[] = "lease_next", kControl[] = "control", kReason[] = "control_reason";

// The third value of a certificate's `revoked`.
constexpr uint64_t kRevokedForGood = 2;
// The key in a table that has one row.
constexpr uint64_t kOnlyRow = 1;

uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }

void AddRun(const RunUpdate& update, std::vector<RowChange>* rows) {
  const auto set = [&](const char* name, RowValue value) {
    rows->push_back({Kind::kReplace, kRunTable, {std::string(name), std::move(value)}});
  };
  if (update.spec) set(kSpec, update.spec->SerializeAsString());
  if (update.epoch) set(kEpoch, *update.epoch);
  if (update.control) {
    set(kControl, static_cast<uint64_t>(update.control->state));
    set(kReason, update.control->reason);
  }
  if (update.started) set(kStarted, uint64_t{1});
  if (update.genesis) set(kGenesis, update.genesis->SerializeAsString());
  if (update.leases) set(kLeaseNext, update.leases->next);
}

void AddCheckpoint(const HistoryCheckpoint& checkpoint, std::vector<RowChange>* rows) {
  rows->push_back({Kind::kRemoveFrom, "checkpoint_digests", {checkpoint.after}});
  if (checkpoint.after == 0) rows->push_back({Kind::kClear, "checkpoint_contributors"});
  rows->push_back({Kind::kInsert, "checkpoint_digests", {checkpoint.after, checkpoint.digests}});
  for (const ContributorSum& sum : checkpoint.contributors) {
    rows->push_back({Kind::kReplace,
                     "checkpoint_contributors",
                     {sum.peer, sum.rounds, sum.tokens, sum.steps, sum.first_version,
                      sum.last_version, absl::bit_cast<uint64_t>(sum.shares)}});
  }
  rows->push_back({Kind::kReplace, "checkpoint", {kOnlyRow, checkpoint.version, checkpoint.proof}});
}

// A peer has a handful of ranges: writing them all is cheaper than finding out what changed.
void AddLeases(const LeaseRecords& leases, std::vector<RowChange>* rows) {
  rows->push_back({Kind::kClear, "leases"});
  for (const LeaseRecord& lease : leases.ranges) {
    rows->push_back({Kind::kInsert, "leases", {lease.first, lease.count, lease.holder}});
  }
}

void AddEnrolment(const RunUpdate& update, std::vector<RowChange>* rows) {
  for (const TokenRecord& token : update.tokens) {
    rows->push_back({Kind::kReplace,
                     "tokens",
                     {token.serial, token.peer, token.role, Bits(token.expires),
                      uint64_t{token.revoked}, token.key}});
  }
  for (const CertificateRecord& one : update.certificates) {
    rows->push_back(
        {Kind::kReplace,
         "certificates",
         {one.serial, one.peer, one.for_good ? kRevokedForGood : uint64_t{one.revoked},
          Bits(one.expires), one.role, one.key, Bits(one.issued), Bits(one.last_seen)}});
  }
  for (const std::string& serial : update.purged) {
    rows->push_back({Kind::kRemove, "tokens", {serial}});
    rows->push_back({Kind::kRemove, "certificates", {serial}});
  }
}

void AddJudged(const JudgeRecord& judged, std::vector<RowChange>* rows) {
  rows->push_back({Kind::kClear, "judged_peers"});
  for (const JudgedPeer& peer : judged.peers) {
    rows->push_back({Kind::kInsert,
                     "judged_peers",
                     {peer.peer, peer.offences, peer.refused, peer.clipped, peer.offence}});
  }
  rows->push_back({Kind::kClear, "median_lengths"});
  for (size_t i = 0; i < judged.medians.size(); ++i) {
    const auto bits = absl::bit_cast<uint64_t>(judged.medians[i]);
    rows->push_back({Kind::kInsert, "median_lengths", {uint64_t{i}, bits}});
  }
}

void AddRecords(const RunUpdate& update, std::vector<RowChange>* rows) {
  for (const MemberRecord& member : update.members) {
    rows->push_back(
        {Kind::kReplace,
         "members",
         {member.peer, member.address, member.state, member.why, uint64_t{member.draining}}});
  }
  for (const std::string& peer : update.forgotten) {
    rows->push_back({Kind::kRemove, "members", {peer}});
  }
  for (const v1::RoundRecord& round : update.rounds) {
    rows->push_back({Kind::kInsert, "rounds", {round.version(), round.SerializeAsString()}});
  }
  for (const v1::EvaluationRecord& record : update.evaluations) {
    rows->push_back(
        {Kind::kReplace, "evaluations", {record.version(), record.SerializeAsString()}});
  }
  if (update.seal) {
    rows->push_back({Kind::kInsert, "seal", {kOnlyRow, update.seal->SerializeAsString()}});
  }
}

// -----------------------------------------------------------------------------------------------

// Reads the columns of a row one after another.
class ColumnReader {
 public:
  explicit ColumnReader(const RowColumns& columns) : columns_(columns) {}

  uint64_t Number() {
    const uint64_t* number = Next<uint64_t>();
    return number == nullptr ? 0 : *number;
  }
  int64_t Signed() { return static_cast<int64_t>(Number()); }
  bool Truth() { return Number() != 0; }
  double Real() { return absl::bit_cast<double>(Number()); }
  std::string Text() {
    const std::string* text = Next<std::string>();
    return text == nullptr ? std::string() : *text;
  }
  template <typename Message>
  void Read(Message* message) {
    fits_ = message->ParseFromString(Text()) && fits_;
  }
  // Every column was read, and is what it was read as.
  bool Fits() const { return fits_ && next_ == columns_.size(); }

 private:
  template <typename Value>
  const Value* Next() {
    const Value* value = next_ < columns_.size() ? std::get_if<Value>(&columns_[next_]) : nullptr;
    fits_ = fits_ && value != nullptr;
    ++next_;
    return value;
  }

  const RowColumns& columns_;
  size_t next_ = 0;
  bool fits_ = true;
};

void TakeRun(ColumnReader& row, StoredRun* run, bool* known) {
  const std::string name = row.Text();
  if (name == kSpec) {
    row.Read(&run->spec.emplace());
  } else if (name == kEpoch) {
    run->epoch = row.Number();
  } else if (name == kStarted) {
    run->started = row.Truth();
  } else if (name == kGenesis) {
    row.Read(&run->genesis.emplace());
  } else if (name == kLeaseNext) {
    run->leases.next = row.Number();
  } else if (name == kReason) {
    run->control.reason = row.Text();
  } else if (name == kControl) {
    const uint64_t state = row.Number();
    *known = state <= static_cast<uint64_t>(RunControl::State::kStopping);
    if (*known) run->control.state = static_cast<RunControl::State>(state);
  } else {
    *known = false;
  }
}

LeaseRecord LeaseIn(ColumnReader& row) {
  LeaseRecord lease;
  lease.first = row.Number();
  lease.count = row.Number();
  lease.holder = row.Text();
  return lease;
}

CertificateRecord CertificateIn(ColumnReader& row) {
  CertificateRecord one;
  one.serial = row.Text();
  one.peer = row.Text();
  const uint64_t revoked = row.Number();
  one.revoked = revoked != 0;
  one.for_good = revoked == kRevokedForGood;
  one.expires = row.Signed();
  one.role = row.Text();
  one.key = row.Text();
  one.issued = row.Signed();
  one.last_seen = row.Signed();
  return one;
}

// Braced lists read their columns from left to right.
using Taker = void (*)(ColumnReader&, StoredRun*);
const std::map<absl::string_view, Taker>& Takers() {
  static const auto* const takers = new std::map<absl::string_view, Taker>{
      {"checkpoint",
       [](ColumnReader& row, StoredRun* run) {
         row.Number();
         run->checkpoint.version = row.Number();
         run->checkpoint.proof = row.Text();
       }},
      {"checkpoint_digests",
       [](ColumnReader& row, StoredRun* run) {
         row.Number();
         run->checkpoint.digests += row.Text();
       }},
      {"checkpoint_contributors",
       [](ColumnReader& row, StoredRun* run) {
         run->checkpoint.contributors.push_back(
             ContributorSum{row.Text(), row.Number(), row.Number(), row.Number(), row.Number(),
                            row.Number(), row.Real()});
       }},
      {"gaps",
       [](ColumnReader& row, StoredRun* run) {
         run->gaps.push_back(HistoryGap{row.Number(), row.Number()});
       }},
      {"leases",
       [](ColumnReader& row, StoredRun* run) { run->leases.ranges.push_back(LeaseIn(row)); }},
      {"members",
       [](ColumnReader& row, StoredRun* run) {
         run->members.push_back(
             MemberRecord{row.Text(), row.Text(), row.Text(), row.Text(), row.Truth()});
       }},
      {"rounds",
       [](ColumnReader& row, StoredRun* run) {
         row.Number();
         row.Read(&run->rounds.emplace_back());
       }},
      {"evaluations",
       [](ColumnReader& row, StoredRun* run) {
         row.Number();
         row.Read(&run->evaluations.emplace_back());
       }},
      {"seal",
       [](ColumnReader& row, StoredRun* run) {
         row.Number();
         row.Read(&run->seal.emplace());
       }},
      {"tokens",
       [](ColumnReader& row, StoredRun* run) {
         run->tokens.push_back(TokenRecord{row.Text(), row.Text(), row.Text(), row.Signed(),
                                           row.Truth(), row.Text()});
       }},
      {"certificates",
       [](ColumnReader& row, StoredRun* run) { run->certificates.push_back(CertificateIn(row)); }},
      {"judged_peers",
       [](ColumnReader& row, StoredRun* run) {
         run->judged.peers.push_back(
             JudgedPeer{row.Text(), row.Number(), row.Number(), row.Number(), row.Text()});
       }},
      {"median_lengths",
       [](ColumnReader& row, StoredRun* run) {
         row.Number();
         run->judged.medians.push_back(row.Real());
       }},
  };
  return *takers;
}

// Names the thing that cannot be read: "round 12", "evaluation of version 3", "members: peer-1".
std::string NameOf(absl::string_view table, const RowColumns& columns) {
  std::string key;
  if (!columns.empty()) {
    const auto* number = std::get_if<uint64_t>(&columns[0]);
    key = number != nullptr ? absl::StrCat(*number) : std::get<std::string>(columns[0]);
  }
  if (table == kHeaderTable) return absl::StrCat("header ", key);
  if (table == "rounds") return absl::StrCat("round ", key);
  if (table == "evaluations") return absl::StrCat("evaluation of version ", key);
  if (table == "seal") return "the seal";
  if (table == kRunTable && key == kSpec) return "the run's settings";
  if (table == kRunTable && key == kGenesis) return "version 0";
  if (table == kRunTable && key == kControl) return "whether the run is paused or stopped";
  return absl::StrCat(table, ": ", key);
}

absl::Status Unreadable(absl::string_view table, const RowColumns& columns) {
  return absl::DataLossError(absl::StrCat(NameOf(table, columns), " cannot be read"));
}

}  // namespace

std::vector<RowChange> RowsOf(const RunUpdate& update) {
  std::vector<RowChange> rows;
  AddRun(update, &rows);
  if (update.gap) rows.push_back({Kind::kInsert, "gaps", {update.gap->first, update.gap->last}});
  for (const v1::EntryHeader& header : update.headers) {
    rows.push_back({Kind::kInsert, kHeaderTable, {header.version(), header.SerializeAsString()}});
  }
  if (update.checkpoint) AddCheckpoint(*update.checkpoint, &rows);
  if (update.leases) AddLeases(*update.leases, &rows);
  AddEnrolment(update, &rows);
  if (update.judged) AddJudged(*update.judged, &rows);
  AddRecords(update, &rows);
  return rows;
}

const std::vector<absl::string_view>& LoadedTables() {
  static const auto* const tables = new std::vector<absl::string_view>{kRunTable,
                                                                       "checkpoint",
                                                                       "checkpoint_digests",
                                                                       "checkpoint_contributors",
                                                                       "gaps",
                                                                       "leases",
                                                                       "members",
                                                                       "rounds",
                                                                       "evaluations",
                                                                       "seal",
                                                                       "tokens",
                                                                       "certificates",
                                                                       "judged_peers",
                                                                       "median_lengths"};
  return *tables;
}

bool IsWrittenWhole(absl::string_view table) {
  return table == "leases" || table == "judged_peers" || table == "median_lengths";
}

absl::Status TakeRow(absl::string_view table, const RowColumns& columns, StoredRun* run) {
  ColumnReader row(columns);
  bool known = true;
  if (table == kRunTable) {
    TakeRun(row, run, &known);
  } else {
    const auto taker = Takers().find(table);
    CHECK(taker != Takers().end());
    taker->second(row, run);
  }
  return known && row.Fits() ? absl::OkStatus() : Unreadable(table, columns);
}

absl::Status TakeHeader(const RowColumns& columns, v1::EntryHeader* header) {
  ColumnReader row(columns);
  const uint64_t version = row.Number();
  row.Read(header);
  if (!row.Fits()) return Unreadable(kHeaderTable, columns);
  if (header->version() == version) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("header ", version, " is that of ", header->version()));
}

}  // namespace atolld
