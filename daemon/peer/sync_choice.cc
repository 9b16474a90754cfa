#include "daemon/peer/sync_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/check.h"
#include "optimizer/outer_rule.h"

namespace atolld {

std::vector<std::string> AddressesOf(absl::Span<const FetchDonor> donors) {
  std::vector<std::string> addresses;
  for (const FetchDonor& donor : donors) addresses.push_back(donor.address);
  return addresses;
}

std::vector<uint64_t> SnapshotsOffered(absl::Span<const FetchDonor> donors, uint64_t oldest,
                                       uint64_t newest) {
  std::map<uint64_t, size_t> offered;
  for (const FetchDonor& donor : donors) {
    if (!donor.offer || !donor.offer->has_snapshot()) continue;
    const uint64_t version = donor.offer->snapshot_version();
    if (version >= oldest && version <= newest) ++offered[version];
  }
  size_t most = 0;
  for (const auto& [version, count] : offered) most = std::max(most, count);
  std::vector<uint64_t> versions;
  for (auto it = offered.rbegin(); it != offered.rend(); ++it) versions.push_back(it->first);
  const auto best = std::find_if(versions.begin(), versions.end(),
                                 [&](uint64_t version) { return 2 * offered[version] >= most; });
  if (best != versions.end()) std::rotate(versions.begin(), best, best + 1);
  return versions;
}

bool EntryOffered(absl::Span<const FetchDonor> donors, uint64_t version) {
  return std::any_of(donors.begin(), donors.end(), [version](const FetchDonor& donor) {
    if (!donor.offer) return true;
    return donor.offer->oldest_entry() > 0 && donor.offer->oldest_entry() <= version;
  });
}

bool SnapshotOffered(absl::Span<const FetchDonor> donors, uint64_t oldest, uint64_t newest) {
  return std::any_of(donors.begin(), donors.end(),
                     [](const FetchDonor& donor) { return !donor.offer.has_value(); }) ||
         !SnapshotsOffered(donors, oldest, newest).empty();
}

uint64_t SnapshotBytes(const v1::Genesis& genesis) {
  const absl::StatusOr<const OuterRule*> rule = FindOuterRule(genesis.spec().outer().rule());
  CHECK_OK(rule.status());
  return genesis.manifest().elements() * sizeof(float) * (1 + (*rule)->buffers().size());
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  if (bytes < 100000) return absl::StrFormat("%.1f kB", static_cast<double>(bytes) / 1e3);
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace atolld
