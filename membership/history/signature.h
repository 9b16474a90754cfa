// Who vouches for a run's history: the holder of its history key (RunSpec.history_key).
//
// A header's signature is over its digest, so it vouches for all that went before, and a seal's
// over the seal's own. A run without such a key has an unsigned history: signatures are empty there
// and nothing is checked. Pure functions, any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/digest.h"
#include "membership/history/signing_key.h"

namespace atolld {

// Every field but the signature, in the order of run.proto, as HeaderDigest.
Digest SealDigest(const v1::Seal& seal);

std::string SignHeader(const SigningKey& key, const v1::EntryHeader& header);
std::string SignSeal(const SigningKey& key, const v1::Seal& seal);

// PERMISSION_DENIED: it is not signed by the run's history key, or it carries a signature in a run
// that has no key. The message names the entry.
absl::Status CheckSigned(const v1::RunSpec& spec, const v1::EntryHeader& header);
absl::Status CheckSigned(const v1::RunSpec& spec, const v1::Seal& seal);

}  // namespace atolld
