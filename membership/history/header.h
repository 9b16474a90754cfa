// The chain of a run's history: its genesis with the model's manifest, its headers and its seal,
// their digests and signatures, and what makes a header a valid successor.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/digest.h"
#include "membership/history/signing_key.h"
#include "optimizer/outer_rule.h"

namespace atolld {

// The chain of headers: their digests, and what makes a header a valid successor.
//
// A digest is taken over our own layout of every field in the order of run.proto (repeated fields
// preceded by their count as u64 LE, strings and bytes by their length), the signature excluded.
// What came later (samples, the stub worker's numbers, how updates are judged, the
// history key, the run's files) is counted after all others, behind a word of its own, and only
// where it is set. Pure functions, any thread.

// The rules of arithmetic that this release speaks, and the highest that it knows.
inline constexpr uint32_t kNumerics = 1;

Digest HeaderDigest(const v1::EntryHeader& header);
Digest GenesisDigest(const v1::Genesis& genesis);

// INVALID_ARGUMENT: names, shapes, offsets or limits of run.proto are broken, or this release lacks
// the codec or the rule. The state digest is checked only if it is set.
absl::Status CheckGenesis(const v1::Genesis& genesis);

// What a run says of its outer step.
OuterSettings OuterSettingsOf(const v1::OuterSpec& outer);

// The outer rule's scalars as the header carries them, and back.
OuterScalars ScalarsOf(const v1::EntryHeader& header);
void SetScalars(const OuterScalars& scalars, v1::EntryHeader* header);

// FAILED_PRECONDITION: not the version after `previous`, another run, a broken chain.
// INVALID_ARGUMENT: shapes, weights, bitmaps or names that no honest coordinator writes.
// PERMISSION_DENIED: not signed as the run's history is (CheckSigned). For version 1 `previous` is
// the genesis digest.
absl::Status CheckHeader(const v1::Genesis& genesis, uint64_t previous_version,
                         const Digest& previous, const v1::EntryHeader& header);

// The same of a header whose predecessor is not known here: it is believed which one it follows.
absl::Status CheckHeaderAlone(const v1::Genesis& genesis, const v1::EntryHeader& header);

// -----------------------------------------------------------------------------------------------
// The manifest of a run's model: names, shapes and places of its tensors in the flat vector.
// Coordinator and peers go by the same rule: what one accepts the others can hold. Pure functions.

// INVALID_ARGUMENT: the manifest is not whole: names that differ, shapes, offsets that tile the
// vector, within run.proto's limits.
absl::Status CheckManifest(const v1::Manifest& manifest);

// "[64, 128]"
std::string ShapeText(const v1::Tensor& tensor);

// -----------------------------------------------------------------------------------------------
// Who vouches for a run's history: the holder of its history key (RunSpec.history_key).
//
// A header's signature is over its digest, so it vouches for all that went before, and a seal's
// over the seal's own. A run without such a key has an unsigned history: signatures are empty there
// and nothing is checked. Pure functions, any thread.

// Every field but the signature, in the order of run.proto, as HeaderDigest.
Digest SealDigest(const v1::Seal& seal);

std::string SignHeader(const SigningKey& key, const v1::EntryHeader& header);
std::string SignSeal(const SigningKey& key, const v1::Seal& seal);

// That a coordinator of this run, the one of this `life`, has begun an epoch; so that a later one
// with an older store can tell a true epoch from one that somebody has made up.
std::string SignEpoch(const SigningKey& key, uint64_t epoch, absl::string_view life);
bool CheckEpochSigned(const v1::RunSpec& spec, uint64_t epoch, absl::string_view life,
                      absl::string_view signature);

// That this is the run's version 0: on this word a peer that holds another one, and no entry, drops
// that.
std::string SignGenesis(const SigningKey& key, const v1::Genesis& genesis);
bool CheckGenesisSigned(const v1::Genesis& genesis, absl::string_view signature);

// PERMISSION_DENIED: it is not signed by the run's history key, or it carries a signature in a run
// that has no key. The message names the entry.
absl::Status CheckSigned(const v1::RunSpec& spec, const v1::EntryHeader& header);
absl::Status CheckSigned(const v1::RunSpec& spec, const v1::Seal& seal);

}  // namespace atolld
