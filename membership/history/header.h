// The chain of a run's history consists of its genesis with the model's manifest, its headers and
// its seal. This file has their digests and signatures, and the rules for a valid successor of a
// header.
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

// A digest covers Atoll's own layout of every field, in the order of run.proto, without the
// signature. A repeated field is preceded by its count as u64 LE, and a string or bytes by the
// length. Fields that were added later come after all others. Each of them is written only if it is
// set, after a word that identifies it. spec_digest.h says how the run's description is added.
// Pure. May be called from any thread.

// The version of the rules of arithmetic that this release uses. It supports no higher version.
inline constexpr uint32_t kNumerics = 1;

Digest HeaderDigest(const v1::EntryHeader& header);
Digest GenesisDigest(const v1::Genesis& genesis);

// Fails with INVALID_ARGUMENT if the genesis violates what run.proto says of names, shapes, offsets
// or limits, or if this release does not have the codec or the rule. The state digest is checked
// only if it is set.
absl::Status CheckGenesis(const v1::Genesis& genesis);

// Returns the settings of a run's outer step.
OuterSettings OuterSettingsOf(const v1::OuterSpec& outer);

// Copy the outer rule's scalars from a header, and into it.
OuterScalars ScalarsOf(const v1::EntryHeader& header);
void SetScalars(const OuterScalars& scalars, v1::EntryHeader* header);

// Checks that a header is a valid successor. Fails with FAILED_PRECONDITION if it is not the
// version after `previous`, belongs to another run, or breaks the chain; with INVALID_ARGUMENT if
// no honest coordinator would write its shapes, weights, bitmaps or names; with PERMISSION_DENIED
// if CheckSigned refuses its signature. For version 1, `previous` is the genesis digest.
absl::Status CheckHeader(const v1::Genesis& genesis, uint64_t previous_version,
                         const Digest& previous, const v1::EntryHeader& header);

// Makes the same checks for a header whose predecessor is not known. The digest of the predecessor
// in it is not checked.
absl::Status CheckHeaderAlone(const v1::Genesis& genesis, const v1::EntryHeader& header);

// -----------------------------------------------------------------------------------------------
// The manifest of a run's model: the names and shapes of its tensors and their places in the flat
// vector. Coordinator and peers use the same check, so a manifest that one of them accepts is
// accepted by all. Pure. May be called from any thread.

// Fails with INVALID_ARGUMENT unless the manifest is valid: it has distinct names, valid shapes,
// and offsets that tile the vector, all within the limits of run.proto.
absl::Status CheckManifest(const v1::Manifest& manifest);

// Returns text such as "[64, 128]".
std::string ShapeText(const v1::Tensor& tensor);

// -----------------------------------------------------------------------------------------------
// Signatures of a run's history by the holder of its history key (RunSpec.history_key).
//
// A header's signature covers its digest, so it also proves all earlier headers. A seal's signature
// covers the seal's own digest. A run without a history key has an unsigned history: its signatures
// are empty and are not checked. Pure. May be called from any thread.

// Returns the digest of every field except the signature, in the order of run.proto and in the
// layout of HeaderDigest.
Digest SealDigest(const v1::Seal& seal);

std::string SignHeader(const SigningKey& key, const v1::EntryHeader& header);
std::string SignSeal(const SigningKey& key, const v1::Seal& seal);

// Signs the statement that the coordinator of this run with this `life` has begun an epoch. The
// signature lets a later coordinator with an older store distinguish a true epoch from an invented
// one.
std::string SignEpoch(const SigningKey& key, uint64_t epoch, absl::string_view life);
bool CheckEpochSigned(const v1::RunSpec& spec, uint64_t epoch, absl::string_view life,
                      absl::string_view signature);

// Signs the statement that this is the run's version 0. A peer that receives this statement and
// holds another version 0, without any entry, drops its own.
std::string SignGenesis(const SigningKey& key, const v1::Genesis& genesis);
bool CheckGenesisSigned(const v1::Genesis& genesis, absl::string_view signature);

// Fail with PERMISSION_DENIED if the header or seal is not signed with the run's history key, or if
// it has a signature although the run has no key. The message names the entry.
absl::Status CheckSigned(const v1::RunSpec& spec, const v1::EntryHeader& header);
absl::Status CheckSigned(const v1::RunSpec& spec, const v1::Seal& seal);

}  // namespace atolld
