// PinnedKeys: the signing keys of the peers with which this peer has masked sums. A key is trusted
// when it is first seen, so that a process which relays messages between the peers cannot later
// replace it by a key of its own.
//
// The keys are in the file DIR/mask_keys. It has one line for each peer: the peer's id, a space,
// and the key in hex. If a peer is installed anew, it has another key, and an operator must remove
// its line. Used on the loop thread.
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
  // `self` is this peer, and `dir` the folder of its replica.
  PinnedKeys(Env env, std::string self, const std::string& dir);

  // Reads the file, if there is one. `own` is this peer's public key, which is used for this peer
  // even if the file names another. Fails with DATA_LOSS if a line is not valid; the message names
  // the line. This call blocks and is made before the loop runs.
  absl::Status Load(std::string own);

  const std::string& path() const { return path_; }
  const KnownSigningKeys& known() const { return known_; }
  // Adds the keys of peers that are not known yet, and writes them durably, on the pool. If they
  // cannot be written, this is logged, and they are kept only until this process ends.
  void Pin(const v1::MaskRoster& roster);

  // If the roster's key of a peer differs from the known key, returns a text for the operator that
  // names the peer and the file; otherwise returns "".
  std::string Contradiction(const v1::MaskRoster& roster) const;

 private:
  std::string Text() const;

  const Env env_;
  const std::string self_;
  const std::string path_;
  KnownSigningKeys known_;  // The known keys, including this peer's own.
  bool full_ = false;       // True once it was logged that no more keys fit.
  SerialQueue queue_;
};

// Parses a file of pinned keys. Fails with INVALID_ARGUMENT if a line is not valid; the message
// names the line.
absl::StatusOr<KnownSigningKeys> ParsePinnedKeys(absl::string_view text);

}  // namespace atolld
