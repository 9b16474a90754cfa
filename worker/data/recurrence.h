// RecurrenceSearch: finds text that is evaluated on and also trained on. If there is such text, the
// reported loss shows how well the model remembers rather than how well it has learnt.
//
// The evaluated text is cut into pieces, which are looked for anywhere in the trained text.
// Conversations are pieces as a whole. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "worker/data/conversations.h"
#include "worker/data/token_file.h"
#include "worker/data/tokenizer.h"

namespace atolld {

struct Recurrence {
  uint64_t looked_at = 0;  // The number of pieces of the evaluated text.
  uint64_t found = 0;      // The number of these pieces that occur in the trained text.
};

class RecurrenceSearch {
 public:
  // Pieces have `length` tokens. LengthFor returns the length that is usual for a tokenizer, about
  // two sentences; `tokenizer` is null if it is not known.
  explicit RecurrenceSearch(uint64_t length) : length_(length) {}
  static uint64_t LengthFor(const Tokenizer* tokenizer);

  // Adds the pieces of an evaluated text. `marks` is null unless the text consists of
  // conversations. At most 65,536 pieces are cut from all texts that are not conversations, and
  // pieces that only repeat one token are ignored.
  void Add(const TokenSpan& evaluated, const TokenMarks* marks);

  // Looks for the pieces in the first 2^28 tokens of a trained text. A piece that occurs in several
  // texts is counted once.
  void LookIn(const TokenSpan& trained, const TokenMarks* marks);

  const Recurrence& result() const { return result_; }

  // Returns a note for the data's owner, or an empty text if nothing was found. `evaluated` and
  // `trained` name the texts, for example "the validation part" and "the training part".
  std::string Note(const std::string& evaluated, const std::string& trained) const;

 private:
  void Find(uint64_t hash);

  const uint64_t length_;
  bool conversations_ = false;
  // How many of the pieces that have not been found have a hash.
  absl::flat_hash_map<uint64_t, uint64_t> pieces_;
  Recurrence result_;
};

}  // namespace atolld
