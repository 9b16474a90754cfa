// What to fetch, by what donors offer and by how many bytes it takes. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// A peer that may be asked, and what it has said that it can give.
struct FetchDonor {
  std::string address;
  std::optional<v1::Offer> offer;  // not told: it may have anything
};

std::vector<std::string> AddressesOf(absl::Span<const FetchDonor> donors);

// The snapshots that are offered between `oldest` and `newest`, best first: the newest that at
// least half as many offer as the most offered one, so that several can give it and the tail is
// short; then the others, newest first.
std::vector<uint64_t> SnapshotsOffered(absl::Span<const FetchDonor> donors, uint64_t oldest,
                                       uint64_t newest);

// Whether anybody may have it: offers it, or has not told.
bool EntryOffered(absl::Span<const FetchDonor> donors, uint64_t version);
bool SnapshotOffered(absl::Span<const FetchDonor> donors, uint64_t oldest, uint64_t newest);

// Of theta and the outer rule's buffers. The genesis must be sound.
uint64_t SnapshotBytes(const v1::Genesis& genesis);

// For people: "512 B", "12.3 kB", "4.1 MB".
std::string FormatBytes(uint64_t bytes);

}  // namespace atolld
