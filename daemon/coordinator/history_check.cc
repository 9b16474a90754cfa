#include "daemon/coordinator/history_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "membership/history/checkpoint.h"
#include "membership/history/header.h"

namespace atolld {
namespace {

constexpr uint32_t kPage = 256;  // headers

using Headers = std::vector<v1::EntryHeader>;

// Returns DATA_LOSS with the reason why the stored checkpoint cannot be used; OK if it can, or if
// there is none. Other errors mean that the store cannot be read.
absl::Status CheckStoredCheckpoint(Store& store, const StoredRun& run) {
  const HistoryCheckpoint& checkpoint = run.checkpoint;
  const std::string genesis = ToBytes(GenesisDigest(*run.genesis));
  if (checkpoint.version == 0 && checkpoint.digests.empty() && checkpoint.contributors.empty()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckCheckpoint(run.genesis->spec(), genesis, checkpoint));
  if (checkpoint.version == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Headers newest, store.ReadHeaders(checkpoint.version, 1));
  const std::string known = HistorySummary(checkpoint).digest(checkpoint.version);
  if (!newest.empty() && newest[0].version() == checkpoint.version &&
      ToBytes(HeaderDigest(newest[0])) == known) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("the checkpoint of version ", checkpoint.version,
                                          " does not belong to the header that is there"));
}

// Walks the chain, page by page.
class ChainCheck {
 public:
  ChainCheck(const StoredRun& run, HistorySummary checked)
      : run_(run),
        version_(checked.version()),
        previous_(version_ == 0 ? GenesisDigest(*run.genesis)
                                : *DigestFromBytes(checked.digest(version_))) {}

  uint64_t version() const { return version_; }
  const Digest& digest() const { return previous_; }

  absl::Status Check(const v1::EntryHeader& header) {
    if (header.version() == version_ + 1) {
      RETURN_IF_ERROR(CheckHeader(*run_.genesis, version_, previous_, header));
    } else {
      RETURN_IF_ERROR(CheckBeyondGap(header));
    }
    version_ = header.version();
    previous_ = HeaderDigest(header);
    return absl::OkStatus();
  }

 private:
  absl::Status CheckBeyondGap(const v1::EntryHeader& header) const {
    const bool recorded =
        std::any_of(run_.gaps.begin(), run_.gaps.end(), [&](const HistoryGap& gap) {
          return gap.first == version_ + 1 && gap.last + 1 == header.version();
        });
    // Nothing but its signature vouches for the first one after a gap.
    if (!recorded || run_.genesis->spec().history_key().empty()) {
      return absl::DataLossError(absl::StrCat("header ", version_ + 1, " is missing"));
    }
    return CheckHeaderAlone(*run_.genesis, header);
  }

  const StoredRun& run_;
  uint64_t version_;
  Digest previous_;
};

absl::Status CheckStoredSeal(const StoredRun& run, const ChainCheck& chain) {
  if (!run.seal) return absl::OkStatus();
  if (run.seal->version() != chain.version() ||
      run.seal->header_digest() != ToBytes(chain.digest())) {
    return absl::DataLossError("the seal does not close the chain of headers");
  }
  return CheckSigned(run.genesis->spec(), *run.seal);
}

absl::Status AsDataLoss(const absl::Status& status) {
  return status.ok() ? status : absl::DataLossError(status.message());
}

}  // namespace

absl::StatusOr<HistoryCheck> CheckHistory(Store& store, HistoryExtent extent, StoredRun* run) {
  HistoryCheck check;
  run->headers.clear();
  if (!run->genesis) {
    ASSIGN_OR_RETURN(const Headers any, store.ReadHeaders(0, 1));
    if (any.empty()) return check;
    return absl::DataLossError("there are headers, but no version 0");
  }
  const absl::Status fits = CheckStoredCheckpoint(store, *run);
  if (!fits.ok() && !absl::IsDataLoss(fits)) return fits;
  check.unfit = std::string(fits.message());
  const bool whole = extent == HistoryExtent::kWhole || !fits.ok();
  HistorySummary checked = whole ? HistorySummary() : HistorySummary(run->checkpoint);
  ChainCheck chain(*run, checked);
  // The last page is left to the caller, which needs its newest header.
  while (true) {
    ASSIGN_OR_RETURN(Headers page, store.ReadHeaders(chain.version() + 1, kPage));
    if (page.empty()) break;
    for (const v1::EntryHeader& header : page) {
      RETURN_IF_ERROR(AsDataLoss(chain.Check(header)));
    }
    check.headers += page.size();
    for (const v1::EntryHeader& header : run->headers) {
      checked.Add(header, ToBytes(HeaderDigest(header)));
    }
    run->headers = std::move(page);
  }
  RETURN_IF_ERROR(AsDataLoss(CheckStoredSeal(*run, chain)));
  if (run->headers.empty() && chain.version() > 0) {
    ASSIGN_OR_RETURN(const Headers newest, store.ReadHeaders(chain.version(), 1));
    run->newest = newest.at(0);
  }
  if (!fits.ok() || checked.since_checkpoint() > 0) {
    check.renewal_digest = checked.ProvenDigest(ToBytes(GenesisDigest(*run->genesis)));
    run->checkpoint = checked.Whole();
    check.renewal = checked.TakeCheckpoint();
  }
  return check;
}

}  // namespace atolld
