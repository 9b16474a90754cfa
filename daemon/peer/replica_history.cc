// ReplicaKeeper, what it is told: a header is taken in only if the history key has signed it and it
// continues what this replica holds. A fork is never followed, and nothing here is given up for it.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "daemon/peer/replica_keeper.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

absl::Status Forked(uint64_t version, const std::string& told, const std::string& here) {
  return absl::FailedPreconditionError(absl::StrCat("the history is forked: version ", version,
                                                    " has header ", told, ", here it is ", here));
}

std::string HexOf(const std::string& digest) {
  const absl::StatusOr<Digest> parsed = DigestFromBytes(digest);
  return parsed.ok() ? ToHex(*parsed) : "none";
}

}  // namespace

bool ReplicaKeeper::Announce(const v1::EntryHeader& header) {
  const absl::Status fits = CheckTold(header);
  if (!fits.ok()) {
    RefuseHistory(fits);
    return false;
  }
  if (header.version() <= version_ && has_state()) {
    if (header.version() == version_) return true;
    // With an older one the log may still tell.
    auto held = std::make_shared<absl::StatusOr<Digest>>(absl::NotFoundError(""));
    const Task look = [this, held, version = header.version()] {
      if (replica_ != nullptr) *held = replica_->HeaderDigestOf(version);
    };
    queue_.Run(look,
               guard_.Wrap([this, held, version = header.version(), told = HeaderDigest(header)] {
                 if (!held->ok() || **held == told) return;  // dropped long ago, or the same
                 RefuseHistory(Forked(version, ToHex(told), ToHex(**held)));
               }));
    return true;
  }
  sync_.newest = std::max(sync_.newest, header.version());
  sync_.announced[header.version()] = header;
  Advance();
  return true;
}

// By itself, and against its neighbours as far as they are known.
absl::Status ReplicaKeeper::CheckTold(const v1::EntryHeader& header) const {
  const uint64_t version = header.version();
  if (genesis_.state_digest().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("entry ", version, ": the run's version 0 is not known yet"));
  }
  RETURN_IF_ERROR(CheckHeaderAlone(genesis_, header));
  if (Planted(PlantedBug::kHeaderChainNotChecked)) return absl::OkStatus();
  const Digest digest = HeaderDigest(header);
  if (has_state()) {
    const std::string held = ToBytes(header_digest_);
    if (version == version_ && ToBytes(digest) != held) {
      return Forked(version, ToHex(digest), ToHex(header_digest_));
    }
    if (version == version_ + 1 && header.previous_header_digest() != held) {
      return Forked(version_, HexOf(header.previous_header_digest()), ToHex(header_digest_));
    }
  }
  const auto same = sync_.announced.find(version);
  if (same != sync_.announced.end() && HeaderDigest(same->second) != digest) {
    return Forked(version, ToHex(digest), ToHex(HeaderDigest(same->second)));
  }
  const auto before = sync_.announced.find(version - 1);
  if (before != sync_.announced.end() &&
      ToBytes(HeaderDigest(before->second)) != header.previous_header_digest()) {
    return Forked(version - 1, HexOf(header.previous_header_digest()),
                  ToHex(HeaderDigest(before->second)));
  }
  const auto after = sync_.announced.find(version + 1);
  if (after != sync_.announced.end() && after->second.previous_header_digest() != ToBytes(digest)) {
    return Forked(version, ToHex(digest), HexOf(after->second.previous_header_digest()));
  }
  return absl::OkStatus();
}

// What was told and is not held yet is forgotten with it: of two headers that contradict each other
// either may be the false one. The next Welcome says anew what there is to come.
void ReplicaKeeper::RefuseHistory(const absl::Status& why) {
  EndFetch();
  sync_.chain.reset();
  sync_.snapshot.reset();
  sync_.announced.clear();
  sync_.payload_bytes.clear();
  sync_.newest = version_;
  events_.on_refused(why);
}

}  // namespace atolld
