// Finds text of the validation part that also occurs in the training part. If there is such text,
// the reported loss shows how well the model remembers rather than how well it has learnt. Pure.
// May be called from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "worker/data/conversations.h"
#include "worker/data/token_file.h"

namespace atolld {

struct Recurrence {
  uint64_t looked_at = 0;  // The number of pieces of the validation part that were examined.
  uint64_t found = 0;      // The number of these pieces that occur in the training part.
};

// Cuts `validation` into consecutive pieces of `length` tokens, and counts how many of them occur
// anywhere in the first 2^28 tokens of `train`. Examines at most 65,536 pieces, and ignores pieces
// that only repeat one token.
Recurrence FindRecurring(const TokenSpan& train, const TokenSpan& validation, uint64_t length);

// Does the same with whole conversations as pieces.
Recurrence FindRecurring(const TokenSpan& train, const TokenMarks& train_marks,
                         const TokenSpan& validation, const TokenMarks& validation_marks);

// Returns a note for the data's owner, or an empty text if nothing was found. `piece` names one of
// the pieces, for example "conversation" or "piece of 64 tokens", and `pieces` is its plural.
std::string NoteOfRecurring(const Recurrence& recurrence, const std::string& piece,
                            const std::string& pieces);

}  // namespace atolld
