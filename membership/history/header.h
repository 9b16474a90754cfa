// The chain of headers: their digests, and what makes a header a valid successor.
//
// A digest is taken over our own layout of every field in the order of run.proto (repeated fields
// preceded by their count as u64 LE, strings and bytes by their length), the signature excluded.
// What came later (samples, partial means, the stub worker's numbers, how updates are judged, the
// history key) is counted after all others, behind a word of its own, and only where it is set.
// Pure functions, any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/digest.h"
#include "optimizer/outer_rule.h"

namespace atolld {

// The rules of arithmetic that this release speaks, and the highest that it knows.
inline constexpr uint32_t kNumerics = 1;

Digest HeaderDigest(const v1::EntryHeader& header);
Digest GenesisDigest(const v1::Genesis& genesis);

// INVALID_ARGUMENT: names, shapes, offsets or limits of run.proto are broken, or this release lacks
// the codec or the rule. The state digest is checked only if it is set.
absl::Status CheckGenesis(const v1::Genesis& genesis);

// The outer rule's scalars as the header carries them, and back.
OuterScalars ScalarsOf(const v1::EntryHeader& header);
void SetScalars(const OuterScalars& scalars, v1::EntryHeader* header);

// FAILED_PRECONDITION: not the version after `previous`, another run, a broken chain.
// INVALID_ARGUMENT: shapes, weights, bitmaps or names that no honest coordinator writes.
// PERMISSION_DENIED: not signed as the run's history is (signature.h). For version 1 `previous` is
// the genesis digest.
absl::Status CheckHeader(const v1::Genesis& genesis, uint64_t previous_version,
                         const Digest& previous, const v1::EntryHeader& header);

// The same of a header whose predecessor is not known here: it is believed which one it follows.
absl::Status CheckHeaderAlone(const v1::Genesis& genesis, const v1::EntryHeader& header);

}  // namespace atolld
