#include "membership/history/checkpoint.h"

#include <algorithm>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/check.h"
#include "membership/history/sha256.h"

namespace atolld {
namespace {

constexpr char kCheckpointDomain[] = "atoll.checkpoint";

constexpr char kZeros[kDigestBytes] = {};
constexpr absl::string_view kNoDigest(kZeros, kDigestBytes);

}  // namespace

std::vector<double> MeanShares(const v1::EntryHeader& header) {
  std::vector<double> shares;
  double all = 0;
  for (const v1::Contributor& contributor : header.contributors()) {
    shares.push_back(double{absl::bit_cast<float>(contributor.weight_bits())});
    all += shares.back();
  }
  for (double& share : shares) share = all > 0 ? share / all : 0;
  return shares;
}

HistorySummary::HistorySummary(const HistoryCheckpoint& checkpoint)
    : checkpointed_(checkpoint.version) {
  CHECK(checkpoint.after == 0 && checkpoint.digests.size() == checkpoint.version * kDigestBytes);
  digests_.reserve(checkpoint.digests.size());
  for (size_t at = 0; at < checkpoint.digests.size(); at += kDigestBytes) {
    Append(absl::string_view(checkpoint.digests).substr(at, kDigestBytes));
  }
  for (const ContributorSum& sum : checkpoint.contributors) contributors_[sum.peer] = sum;
}

void HistorySummary::Append(absl::string_view digest) {
  CHECK(digest.size() == kDigestBytes);
  digests_.append(digest.data(), digest.size());
  if (digest == kNoDigest) ++missing_;
  folded_ = Sha256(BytesOf(absl::StrCat(ToBytes(folded_), digest)));
}

std::string HistorySummary::digest(uint64_t version) const {
  CHECK(version >= 1 && version <= this->version());
  std::string digest = digests_.substr((version - 1) * kDigestBytes, kDigestBytes);
  return digest == kNoDigest ? std::string() : digest;
}

void HistorySummary::Add(const v1::EntryHeader& header, absl::string_view digest) {
  CHECK(header.version() > version());
  while (version() + 1 < header.version()) Append(kNoDigest);
  Append(digest);
  const std::vector<double> shares = MeanShares(header);
  for (int i = 0; i < header.contributors_size(); ++i) {
    const v1::Contributor& contributor = header.contributors(i);
    ContributorSum& sum = contributors_[contributor.peer()];
    sum.peer = contributor.peer();
    if (sum.rounds == 0) sum.first_version = header.version();
    sum.last_version = header.version();
    ++sum.rounds;
    sum.tokens += contributor.tokens();
    sum.steps += contributor.steps();
    sum.shares += shares[static_cast<size_t>(i)];
    changed_.insert(contributor.peer());
  }
}

HistoryCheckpoint HistorySummary::TakeCheckpoint() {
  HistoryCheckpoint checkpoint;
  checkpoint.version = version();
  checkpoint.after = checkpointed_;
  checkpoint.digests = digests_.substr(checkpointed_ * kDigestBytes);
  for (const std::string& peer : changed_) {
    checkpoint.contributors.push_back(contributors_.at(peer));
  }
  checkpointed_ = version();
  changed_.clear();
  return checkpoint;
}

HistoryCheckpoint HistorySummary::Whole() const {
  HistoryCheckpoint checkpoint;
  checkpoint.version = version();
  checkpoint.digests = digests_;
  for (const auto& [peer, sum] : contributors_) checkpoint.contributors.push_back(sum);
  return checkpoint;
}

Digest HistorySummary::ProvenDigest(absl::string_view genesis_digest) const {
  DigestBuilder builder("atoll.checkpoint.2");
  builder.Bytes(genesis_digest).U64(version()).Bytes(ToBytes(folded_));
  builder.U64(contributors_.size());
  for (const auto& [peer, sum] : contributors_) {
    builder.Bytes(peer).U64(sum.rounds).U64(sum.tokens).U64(sum.steps);
    builder.U64(sum.first_version).U64(sum.last_version);
    builder.U64(absl::bit_cast<uint64_t>(sum.shares));
  }
  return builder.Finish();
}

void Renew(const HistoryCheckpoint& update, HistoryCheckpoint* stored) {
  CHECK(update.after * kDigestBytes <= stored->digests.size());
  stored->version = update.version;
  stored->digests.resize(update.after * kDigestBytes);
  stored->digests += update.digests;
  stored->proof = update.proof;
  std::map<std::string, ContributorSum> sums;
  if (update.after != 0) {
    for (const ContributorSum& sum : stored->contributors) sums[sum.peer] = sum;
  }
  for (const ContributorSum& sum : update.contributors) sums[sum.peer] = sum;
  stored->contributors.clear();
  for (const auto& [peer, sum] : sums) stored->contributors.push_back(sum);
}

std::string SignCheckpoint(const SigningKey& key, const Digest& digest) {
  return key.Sign(kCheckpointDomain, ToBytes(digest));
}

absl::Status CheckCheckpoint(const v1::RunSpec& spec, absl::string_view genesis_digest,
                             const HistoryCheckpoint& checkpoint) {
  const std::string context = absl::StrCat("the checkpoint of version ", checkpoint.version);
  if (checkpoint.after != 0 || checkpoint.digests.size() % kDigestBytes != 0 ||
      checkpoint.digests.size() / kDigestBytes != checkpoint.version) {
    return absl::DataLossError(
        absl::StrCat(context, " has ", checkpoint.digests.size(), " bytes of digests"));
  }
  const std::string digest = ToBytes(HistorySummary(checkpoint).ProvenDigest(genesis_digest));
  const bool proven =
      spec.history_key().empty()
          ? checkpoint.proof == digest
          : VerifySignature(spec.history_key(), kCheckpointDomain, digest, checkpoint.proof);
  if (proven) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(context, " is not the one that was written"));
}

}  // namespace atolld
