// The part of a run's description (RunSpec) in the digest of its genesis.
//
// The fields are added by the descriptor of run.proto, in an order that a table in the source
// states once. Fields that a release added are written only if they are set, after a word that
// identifies them, so that runs without them keep their digest. A field that the table does not
// name is added after all others, in the order of run.proto, with its path (such as
// "mode.age_cutoff") as the word: a new field needs no line here. Numbers are added as U64, doubles
// as their 64 bits, strings with their length, and repeated fields after their count. A field that
// is alone behind its word and is a bool is the word alone. Pure. May be called from any thread.
#pragma once

#include "atoll/v1/run.pb.h"
#include "membership/history/digest.h"

namespace atolld {

// Adds the fields that come before the model's manifest and the digest of version 0.
void AddSpec(const v1::RunSpec& spec, DigestBuilder& builder);

// Adds all other fields.
void AddRestOfSpec(const v1::RunSpec& spec, DigestBuilder& builder);

}  // namespace atolld
