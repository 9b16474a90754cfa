#include "tests/sim/etcd_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

namespace rpc = ::etcdserverpb;

// etcd's default limits.
constexpr int kMostEtcdOperations = 128;
constexpr size_t kMostEtcdBytes = 3 * (size_t{1} << 20) / 2;

bool InRange(const std::string& key, const std::string& begin, const std::string& end) {
  return end.empty() ? key == begin : begin <= key && key < end;
}

}  // namespace

const EtcdState::Version* EtcdState::At(const std::vector<Version>& versions,
                                        int64_t revision) const {
  const Version* found = nullptr;
  for (const Version& version : versions) {
    if (version.revision <= revision) found = &version;
  }
  return found;
}

const rpc::KeyValue* EtcdState::Find(const std::string& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end() || !found->second.back().pair) return nullptr;
  return &*found->second.back().pair;
}

bool EtcdState::ChangedSince(const std::string& key, int64_t revision) const {
  if (revision <= compacted_) return true;
  const auto found = keys_.find(key);
  return found != keys_.end() && found->second.back().revision >= revision;
}

absl::StatusOr<rpc::RangeResponse> EtcdState::Range(const rpc::RangeRequest& request) const {
  const int64_t at = request.revision() == 0 ? revision_ : request.revision();
  if (at < compacted_) return absl::OutOfRangeError("required revision has been compacted");
  if (at > revision_) return absl::OutOfRangeError("required revision is a future revision");
  rpc::RangeResponse response;
  response.mutable_header()->set_revision(revision_);
  for (auto key = keys_.lower_bound(request.key()); key != keys_.end(); ++key) {
    if (!InRange(key->first, request.key(), request.range_end())) break;
    const Version* const version = At(key->second, at);
    if (version == nullptr || !version->pair) continue;
    if (request.limit() > 0 && response.kvs_size() == request.limit()) {
      response.set_more(true);
      break;
    }
    *response.add_kvs() = *version->pair;
  }
  return response;
}

bool EtcdState::Holds(const rpc::Compare& compare) const {
  const rpc::KeyValue* const pair = Find(compare.key());
  switch (compare.target()) {
    case rpc::Compare::CREATE:
      return compare.create_revision() == (pair == nullptr ? 0 : pair->create_revision());
    case rpc::Compare::VALUE:
      return pair != nullptr && pair->value() == compare.value();
    case rpc::Compare::LEASE:
      return compare.lease() == (pair == nullptr ? 0 : pair->lease());
    default:
      return false;
  }
}

absl::Status EtcdState::CheckOperations(const rpc::TxnRequest& request, bool succeeded) const {
  const auto& operations = succeeded ? request.success() : request.failure();
  if (operations.size() > kMostEtcdOperations || request.compare_size() > kMostEtcdOperations) {
    return absl::InvalidArgumentError("too many operations in txn request");
  }
  if (request.ByteSizeLong() > kMostEtcdBytes) {
    return absl::InvalidArgumentError("request is too large");
  }
  std::set<std::string> put;
  for (const rpc::RequestOp& operation : operations) {
    if (!operation.has_request_put()) continue;
    const rpc::PutRequest& one = operation.request_put();
    if (!put.insert(one.key()).second) return absl::InvalidArgumentError("duplicate key given");
    if (one.lease() != 0 && !HasLease(one.lease())) {
      return absl::NotFoundError("requested lease not found");
    }
  }
  for (const rpc::RequestOp& operation : operations) {
    if (!operation.has_request_delete_range()) continue;
    const rpc::DeleteRangeRequest& range = operation.request_delete_range();
    for (const std::string& key : put) {
      if (InRange(key, range.key(), range.range_end())) {
        return absl::InvalidArgumentError("duplicate key given");
      }
    }
  }
  return absl::OkStatus();
}

void EtcdState::Put(const rpc::PutRequest& request, int64_t revision) {
  const rpc::KeyValue* const before = Find(request.key());
  rpc::KeyValue pair;
  pair.set_key(request.key());
  pair.set_value(request.value());
  pair.set_create_revision(before == nullptr ? revision : before->create_revision());
  pair.set_mod_revision(revision);
  pair.set_lease(request.lease());
  if (before != nullptr && before->lease() != 0) leases_[before->lease()].erase(request.key());
  if (request.lease() != 0) leases_[request.lease()].insert(request.key());
  keys_[request.key()].push_back({revision, std::move(pair)});
}

bool EtcdState::Delete(const std::string& key, int64_t revision) {
  const rpc::KeyValue* const before = Find(key);
  if (before == nullptr) return false;
  if (before->lease() != 0) leases_[before->lease()].erase(key);
  keys_[key].push_back({revision, std::nullopt});
  return true;
}

absl::StatusOr<rpc::TxnResponse> EtcdState::Txn(const rpc::TxnRequest& request) {
  const bool succeeded = std::all_of(request.compare().begin(), request.compare().end(),
                                     [this](const auto& compare) { return Holds(compare); });
  const absl::Status fits = CheckOperations(request, succeeded);
  if (!fits.ok()) return fits;
  rpc::TxnResponse response;
  response.set_succeeded(succeeded);
  const int64_t next = revision_ + 1;
  bool changed = false;
  for (const rpc::RequestOp& operation : succeeded ? request.success() : request.failure()) {
    rpc::ResponseOp* const answer = response.add_responses();
    if (operation.has_request_put()) {
      Put(operation.request_put(), next);
      answer->mutable_response_put();
      changed = true;
    } else if (operation.has_request_delete_range()) {
      const rpc::DeleteRangeRequest& range = operation.request_delete_range();
      std::vector<std::string> gone;
      for (auto key = keys_.lower_bound(range.key()); key != keys_.end(); ++key) {
        if (!InRange(key->first, range.key(), range.range_end())) break;
        gone.push_back(key->first);
      }
      for (const std::string& key : gone) changed = Delete(key, next) || changed;
      answer->mutable_response_delete_range();
    } else {
      const absl::StatusOr<rpc::RangeResponse> found = Range(operation.request_range());
      if (!found.ok()) return found.status();
      *answer->mutable_response_range() = *found;
    }
  }
  if (changed) revision_ = next;
  response.mutable_header()->set_revision(revision_);
  return response;
}

absl::Status EtcdState::Compact(int64_t revision) {
  if (revision <= compacted_) return absl::OutOfRangeError("required revision has been compacted");
  if (revision > revision_) return absl::OutOfRangeError("required revision is a future revision");
  compacted_ = revision;
  for (auto key = keys_.begin(); key != keys_.end();) {
    std::vector<Version>& versions = key->second;
    const auto later = std::find_if(versions.begin(), versions.end(), [&](const Version& version) {
      return version.revision > revision;
    });
    if (later - versions.begin() > 1) versions.erase(versions.begin(), later - 1);
    if (versions.size() == 1 && !versions[0].pair && versions[0].revision <= revision) {
      key = keys_.erase(key);
    } else {
      ++key;
    }
  }
  return absl::OkStatus();
}

int64_t EtcdState::Grant() {
  leases_[++last_lease_];
  return last_lease_;
}

absl::Status EtcdState::EndLease(int64_t lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return absl::NotFoundError("requested lease not found");
  const std::set<std::string> keys = found->second;
  for (const std::string& key : keys) Delete(key, revision_ + 1);
  if (!keys.empty()) ++revision_;
  leases_.erase(lease);
  return absl::OkStatus();
}

}  // namespace atolld
