#include "daemon/etcd/etcd_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

constexpr int64_t kKeysAPage = 256;
// The time for one answer if there is no term that limits it.
constexpr absl::Duration kPatience = absl::Seconds(5);
// In transactions. A compaction costs etcd some milliseconds, and a superseded row some bytes.
constexpr uint64_t kBetweenCompactions = 256;

bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsInternal(status) || absl::IsUnknown(status) || absl::IsCancelled(status);
}

rpc::RequestOp Put(const std::string& key, const std::string& value) {
  rpc::RequestOp operation;
  operation.mutable_request_put()->set_key(key);
  operation.mutable_request_put()->set_value(value);
  return operation;
}

std::string DecidedKey(const std::string& prefix, uint64_t part) {
  return absl::StrFormat("%sparts/%06d", prefix, part);
}
std::string DecidedCountKey(const std::string& prefix) { return prefix + "parts/count"; }
std::string LastCommitKey(const std::string& prefix) { return prefix + "last_commit"; }
std::string MarkKey(const std::string& prefix) { return prefix + "mark"; }

rpc::RequestOp DeleteFolder(const std::string& folder) {
  rpc::RequestOp operation;
  operation.mutable_request_delete_range()->set_key(folder);
  operation.mutable_request_delete_range()->set_range_end(PrefixEnd(folder));
  return operation;
}

// Adds the condition that the key has this value or, if `value` is empty, that it does not exist.
void AddFollows(const std::string& key, const std::string& value, rpc::TxnRequest* request) {
  rpc::Compare* const compare = request->add_compare();
  compare->set_key(key);
  if (value.empty()) {
    compare->set_target(rpc::Compare::CREATE);
    compare->set_create_revision(0);
  } else {
    compare->set_target(rpc::Compare::VALUE);
    compare->set_value(value);
  }
}

}  // namespace

EtcdStore::EtcdStore(EtcdAccess access, std::string prefix, std::shared_ptr<LeaderTerm> term)
    : prefix_(std::move(prefix)),
      where_(absl::StrCat(prefix_, " in etcd at ", absl::StrJoin(access.endpoints, ","))),
      term_(std::move(term)),
      client_(std::move(access)) {}

absl::Status EtcdStore::Apply(const RunUpdate& update) {
  CHECK(term_ != nullptr);
  const std::vector<EtcdBatch> batches = BatchesOf(prefix_, RowsOf(update));
  if (batches.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(batches.size() == 1 ? Commit(batches[0].operations, batches[0].fresh)
                                      : CommitByParts(batches));
  CompactNowAndThen();
  return absl::OkStatus();
}

absl::StatusOr<std::string> EtcdStore::FindLastCommit() {
  rpc::RangeRequest request;
  request.set_key(LastCommitKey(prefix_));
  ASSIGN_OR_RETURN(const rpc::RangeResponse found, Read(request));
  return found.kvs_size() == 0 ? std::string() : found.kvs(0).value();
}

absl::Status EtcdStore::Commit(const std::vector<rpc::RequestOp>& operations,
                               const std::vector<std::string>& fresh) {
  // By this number a writer without an answer finds out whether its transaction was done. The
  // condition on the number before it makes sure that it is done once, even if an earlier try
  // arrives after a later transaction.
  const std::string id = absl::StrCat(term_->fence(), ".", ++commits_);
  if (!last_commit_) {
    ASSIGN_OR_RETURN(last_commit_, FindLastCommit());
  }
  rpc::TxnRequest request;
  term_->AddCompares(&request);
  if (!Planted(PlantedBug::kNoFence)) {
    AddFollows(LastCommitKey(prefix_), *last_commit_, &request);
  }
  for (const std::string& key : fresh) {
    rpc::Compare* const compare = request.add_compare();
    compare->set_key(key);
    compare->set_target(rpc::Compare::CREATE);
    compare->set_create_revision(0);
  }
  for (const rpc::RequestOp& operation : operations) *request.add_success() = operation;
  *request.add_success() = Put(LastCommitKey(prefix_), id);
  request.add_failure()->mutable_request_range()->set_key(term_->key());
  request.add_failure()->mutable_request_range()->set_key(LastCommitKey(prefix_));
  while (!term_->over()) {
    const absl::StatusOr<rpc::TxnResponse> answer = client_.Txn(request, term_->left());
    if (!answer.ok()) {
      if (MayPass(answer.status())) continue;
      last_commit_.reset();  // an earlier try may have come to something
      return Annotate(answer.status(), where_);
    }
    revision_ = answer->header().revision();
    if (answer->succeeded()) {
      last_commit_ = id;
      return absl::OkStatus();
    }
    if (answer->responses_size() != 2)
      return absl::DataLossError("etcd gives an unexpected answer");
    const rpc::RangeResponse& last = answer->responses(1).response_range();
    const rpc::RangeResponse& election = answer->responses(0).response_range();
    if (!term_->IsIn(election)) {
      term_->End();
      return absl::AbortedError(
          election.kvs_size() == 0
              ? absl::StrCat("its lease in etcd has ended")
              : absl::StrCat("the coordinator at ", election.kvs(0).value(), " leads by now"));
    }
    const std::string found = last.kvs_size() == 0 ? "" : last.kvs(0).value();
    if (found == id) {
      last_commit_ = id;
      return absl::OkStatus();
    }
    if (found != *last_commit_) {
      return absl::DataLossError(absl::StrCat(where_, ": transaction ", found, " follows ",
                                              *last_commit_, ", and this leader did not make it"));
    }
    return absl::AlreadyExistsError(absl::StrCat(where_, ": what is to be written exists already"));
  }
  return absl::AbortedError("its lease in etcd could not be kept alive");
}

// The parts may be written again and again; once their number is written beside them, the update is
// durable.
absl::Status EtcdStore::CommitByParts(const std::vector<EtcdBatch>& batches) {
  for (size_t i = 0; i < batches.size(); ++i) {
    rpc::TxnRequest part;
    for (const rpc::RequestOp& operation : batches[i].operations) *part.add_success() = operation;
    RETURN_IF_ERROR(Commit({Put(DecidedKey(prefix_, i), part.SerializeAsString())}, {}));
  }
  RETURN_IF_ERROR(Commit({Put(DecidedCountKey(prefix_), absl::StrCat(batches.size()))}, {}));
  return CarryOut(batches.size());
}

absl::Status EtcdStore::CarryOut(uint64_t parts) {
  for (uint64_t i = 0; i < parts; ++i) {
    const std::string key = DecidedKey(prefix_, i);
    rpc::RangeRequest request;
    request.set_key(key);
    ASSIGN_OR_RETURN(const rpc::RangeResponse found, Read(request));
    rpc::TxnRequest part;
    if (found.kvs_size() != 1 || !part.ParseFromString(found.kvs(0).value())) {
      return absl::DataLossError(absl::StrCat(where_, ": ", key, " cannot be read"));
    }
    RETURN_IF_ERROR(Commit({part.success().begin(), part.success().end()}, {}));
  }
  return Commit({DeleteFolder(prefix_ + "parts/")}, {});
}

absl::Status EtcdStore::FinishParts() {
  rpc::RangeRequest request;
  request.set_key(DecidedCountKey(prefix_));
  ASSIGN_OR_RETURN(const rpc::RangeResponse count, Read(request));
  if (count.kvs_size() == 0) return absl::OkStatus();
  uint64_t parts = 0;
  if (!absl::SimpleAtoi(count.kvs(0).value(), &parts)) {
    return absl::DataLossError(absl::StrCat(where_, ": ", request.key(), " cannot be read"));
  }
  if (term_ == nullptr) return absl::UnavailableError("its leader is writing; try again");
  return CarryOut(parts);
}

void EtcdStore::CompactNowAndThen() {
  if (commits_ < compacted_ + kBetweenCompactions) return;
  compacted_ = commits_;
  // What is not compacted now is the next time.
  client_.Compact(revision_, std::min(kPatience, term_->left())).IgnoreError();
}

absl::StatusOr<rpc::RangeResponse> EtcdStore::Read(const rpc::RangeRequest& request) {
  rpc::RangeRequest asked = request;
  asked.set_revision(read_revision_);
  while (true) {
    absl::StatusOr<rpc::RangeResponse> answer =
        client_.Range(asked, term_ == nullptr ? kPatience : term_->left());
    if (answer.ok()) return answer;
    if (term_ != nullptr && term_->over()) {
      return absl::AbortedError("its lease in etcd could not be kept alive");
    }
    if (term_ == nullptr || !MayPass(answer.status())) return Annotate(answer.status(), where_);
  }
}

absl::Status EtcdStore::ReadRows(const std::string& from, const std::string& end, uint64_t most,
                                 const RowAssembly::Take& take) {
  uint64_t rows = 0;
  RowAssembly assembly([&](const RowColumns& columns) {
    ++rows;
    return take(columns);
  });
  rpc::RangeRequest request;
  request.set_key(from);
  request.set_range_end(end);
  request.set_limit(static_cast<int64_t>(std::min<uint64_t>(most, kKeysAPage)));
  while (true) {
    ASSIGN_OR_RETURN(const rpc::RangeResponse page, Read(request));
    if (term_ == nullptr && read_revision_ == 0) read_revision_ = page.header().revision();
    for (const rpc::KeyValue& pair : page.kvs()) {
      if (rows >= most) return absl::OkStatus();
      RETURN_IF_ERROR(Annotate(assembly.Add(pair), where_));
    }
    if (!page.more() || page.kvs_size() == 0) break;
    request.set_key(page.kvs(page.kvs_size() - 1).key() + std::string(1, '\0'));
  }
  return Annotate(assembly.End(), where_);
}

absl::Status EtcdStore::PrepareToRead() {
  read_revision_ = 0;
  return FinishParts();
}

absl::Status EtcdStore::ReadTable(absl::string_view table, const TakeColumns& take) {
  const std::string folder = TableFolder(prefix_, table);
  const auto take_said = [&](const RowColumns& columns) {
    return table == kRunTable && !IsSaid(columns) ? absl::OkStatus() : take(columns);
  };
  return ReadRows(folder, PrefixEnd(folder), std::numeric_limits<uint64_t>::max(), take_said);
}

absl::StatusOr<std::optional<v1::StoreMark>> EtcdStore::ReadMark() {
  rpc::RangeRequest request;
  request.set_key(MarkKey(prefix_));
  ASSIGN_OR_RETURN(const rpc::RangeResponse found, Read(request));
  std::optional<v1::StoreMark> mark;
  if (found.kvs_size() == 0) return mark;
  if (!mark.emplace().ParseFromString(found.kvs(0).value())) {
    return absl::DataLossError(absl::StrCat(where_, ": ", request.key(), " cannot be read"));
  }
  return mark;
}

absl::Status EtcdStore::WriteMark(const v1::StoreMark* mark) {
  if (mark != nullptr) return Commit({Put(MarkKey(prefix_), mark->SerializeAsString())}, {});
  rpc::RequestOp remove;
  remove.mutable_request_delete_range()->set_key(MarkKey(prefix_));
  return Commit({remove}, {});
}

absl::Status EtcdStore::WriteRows(const std::vector<RowChange>& changes) {
  for (const EtcdBatch& batch : BatchesOf(prefix_, changes)) {
    RETURN_IF_ERROR(Commit(batch.operations, batch.fresh));
    CompactNowAndThen();
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::RemoveRows() {
  return Commit({DeleteFolder(prefix_ + "rows/"), DeleteFolder(prefix_ + "parts/")}, {});
}

absl::StatusOr<std::vector<v1::EntryHeader>> EtcdStore::ReadHeaders(uint64_t first,
                                                                    uint32_t limit) {
  std::vector<v1::EntryHeader> headers;
  if (limit == 0) return headers;
  RETURN_IF_ERROR(ReadRows(
      RowKey(prefix_, kHeaderTable, first), PrefixEnd(TableFolder(prefix_, kHeaderTable)), limit,
      [&](const RowColumns& columns) { return TakeHeader(columns, &headers.emplace_back()); }));
  return headers;
}

}  // namespace atolld
