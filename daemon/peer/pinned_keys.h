// PinnedKeys: the signing keys under which a peer has masked sums with others, so that nobody who
// carries messages between them can put keys of its own in their place later: trust on first use.
//
// They lie in DIR/mask_keys, a line a peer: its id, a space, and the key in hex. A peer that was
// installed anew has another key; its line is then for people to remove. Loop thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/env/env.h"
#include "membership/masking/mask_announcement.h"

namespace atolld {

class PinnedKeys {
 public:
  // Of the peer `self` whose replica lies in `dir`.
  PinnedKeys(Env env, std::string self, const std::string& dir);

  // Reads the file, if there is one. `own`: this peer's public key, which is known whatever the
  // file says. DATA_LOSS: a line is none; it names it. Blocking, before the loop runs.
  absl::Status Load(std::string own);

  const KnownSigningKeys& known() const { return known_; }
  // Adds those whose peers are not known yet, and writes them durably, on the pool. What cannot be
  // written is logged, and known until this process ends.
  void Pin(const v1::MaskRoster& roster);

  // Where the roster has another key than the one that is known, for whoever is to mend it: of
  // whom, and the file. Empty: nowhere.
  std::string Contradiction(const v1::MaskRoster& roster) const;

 private:
  std::string Text() const;

  const Env env_;
  const std::string self_;
  const std::string path_;
  KnownSigningKeys known_;  // its own too
  bool full_ = false;       // that was said
  SerialQueue queue_;
};

// What a file of pinned keys says. INVALID_ARGUMENT names the line that is none.
absl::StatusOr<KnownSigningKeys> ParsePinnedKeys(absl::string_view text);

}  // namespace atolld
