#include "daemon/replica/state/offer.h"

#include <memory>
#include <vector>

#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/snapshot_build.h"
#include "daemon/replica/state/update_log.h"

namespace atolld {

absl::StatusOr<v1::Offer> OfferOf(Files& files, const std::string& dir, uint64_t committed) {
  v1::Offer offer;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> payloads, ListPayloads(files, dir));
  ASSIGN_OR_RETURN(const LogReader log, LogReader::Open(files, dir, 1));
  uint64_t oldest = committed + 1;
  for (auto payload = payloads.rbegin(); payload != payloads.rend(); ++payload) {
    if (*payload > committed) continue;  // prepared, or committed since
    if (*payload + 1 != oldest || log.empty() || *payload > log.last_version() ||
        *payload < log.first_version()) {
      break;
    }
    oldest = *payload;
  }
  if (oldest <= committed) offer.set_oldest_entry(oldest);
  const absl::StatusOr<std::unique_ptr<SnapshotReader>> snapshot =
      FindSnapshot(files, dir, committed);
  if (snapshot.ok()) {
    offer.set_has_snapshot(true);
    offer.set_snapshot_version((*snapshot)->info().version());
  } else if (!absl::IsNotFound(snapshot.status()) && !absl::IsDataLoss(snapshot.status())) {
    return snapshot.status();
  }
  return offer;
}

}  // namespace atolld
