#include "daemon/peer/pinned_keys.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compression/base/bytes.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"

namespace atolld {
namespace {

// Far more peers than have ever been in one run; the file then has half a megabyte.
constexpr size_t kMostPinned = 4096;
constexpr uint64_t kMostPinnedBytes = uint64_t{1} << 20;

absl::Status NoPinnedKey(size_t line) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, " is not a pinned key: a peer's id, a space, and ",
                   2 * kPublicKeyBytes, " hex digits, each peer once"));
}

}  // namespace

absl::StatusOr<KnownSigningKeys> ParsePinnedKeys(absl::string_view text) {
  KnownSigningKeys keys;
  size_t line = 0;
  for (const absl::string_view words : absl::StrSplit(text, '\n')) {
    ++line;
    if (words.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(words, ' ');
    const bool hex = pair.second.size() == 2 * kPublicKeyBytes &&
                     std::all_of(pair.second.begin(), pair.second.end(),
                                 [](char digit) { return absl::ascii_isxdigit(digit); });
    if (!hex || !IsValidId(pair.first) ||
        words.size() != pair.first.size() + 1 + pair.second.size() ||
        !keys.emplace(std::string(pair.first), BytesOfHex(pair.second)).second) {
      return NoPinnedKey(line);
    }
  }
  return keys;
}

PinnedKeys::PinnedKeys(Env env, std::string self, const std::string& dir)
    : env_(env),
      self_(std::move(self)),
      path_(absl::StrCat(dir, "/mask_keys")),
      queue_(env.executor) {}

absl::Status PinnedKeys::Load(std::string own) {
  known_.clear();
  if (env_.files.Exists(path_)) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(env_.files, path_, kMostPinnedBytes));
    absl::StatusOr<KnownSigningKeys> keys = ParsePinnedKeys(text);
    if (!keys.ok()) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ", keys.status().message(),
                       "; mend the line, or remove the file to trust the others' keys anew"));
    }
    known_ = *std::move(keys);
  }
  known_[self_] = std::move(own);
  return absl::OkStatus();
}

std::string PinnedKeys::Text() const {
  std::string text;
  for (const auto& [peer, key] : known_) {
    if (peer != self_) absl::StrAppend(&text, peer, " ", absl::BytesToHexString(key), "\n");
  }
  return text;
}

void PinnedKeys::Pin(const v1::MaskRoster& roster) {
  const size_t before = known_.size();
  for (const v1::MaskKeys& keys : roster.parties()) {
    if (known_.size() > kMostPinned) break;
    known_.emplace(keys.peer(), keys.signing_key());
  }
  if (known_.size() > kMostPinned && !std::exchange(full_, true)) {
    env_.log.Warning(absl::StrCat(path_, ": it has ", kMostPinned,
                                  " keys, and no others are added: remove those of peers that are "
                                  "gone, and start this peer again"));
  }
  if (known_.size() == before) return;
  auto written = std::make_shared<absl::Status>();
  queue_.Run(
      [&files = env_.files, path = path_, text = Text(), written] {
        *written = WriteFileDurably(files, path, BytesOf(text));
      },
      [&log = env_.log, written] {
        if (written->ok()) return;
        log.Warning(absl::StrCat("keys of others for masks are not written: ", written->message()));
      });
}

std::string PinnedKeys::Contradiction(const v1::MaskRoster& roster) const {
  for (const v1::MaskKeys& keys : roster.parties()) {
    const auto known = known_.find(keys.peer());
    if (known == known_.end() || known->second == keys.signing_key()) continue;
    if (keys.peer() == self_) continue;  // this peer's own key is not in the file
    return absl::StrCat("peer ", keys.peer(),
                        " signs its mask keys with another key than its line in ", path_,
                        " has. If it was installed anew, remove that line and start this peer "
                        "again; if not, somebody speaks in its place. If this is true of a third "
                        "of the parties, this peer takes part in no sum");
  }
  return "";
}

}  // namespace atolld
