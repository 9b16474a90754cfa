// SiteCheck: verifies a site, that is, derives the run's states anew from what it holds.
//
// It checks every file's SHA-256, the genesis, the chain of all headers with their signatures, the
// digest of each payload and, by replaying the entries, the digest of each state, the seal, and
// what story.json tells of the headers. It needs no folder of the run. It holds a whole state, in
// files in `scratch`, and there it also keeps what it fetches from a server. It blocks, and may be
// called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/publication/site.h"
#include "daemon/publication/site_index.h"

namespace atolld {

// How far a check has come. `doing` is one of the two, or the name of a file that is read, and then
// the numbers are bytes.
inline constexpr char kCheckingHeaders[] = "headers and signatures";
inline constexpr char kCheckingStates[] = "states";
struct CheckProgress {
  absl::string_view doing;
  uint64_t done = 0;
  uint64_t all = 0;
};

struct CheckOrder {
  // The first and the last version whose state is of interest; all by default. The entries before
  // `from` are replayed too, since the site has one state alone.
  std::optional<uint64_t> from;
  std::optional<uint64_t> to;
  std::string history_key;  // the run's key, if the caller knows it; else empty
  std::string software;     // this release, as PublishOrder has it
  std::string scratch;      // a folder for what is fetched, and for the state
  std::function<void(const CheckProgress&)> on_progress;
  // Checks the text of receipts.json and returns how many receipts there are. `header` returns the
  // checked header of a version, or NOT_FOUND. A fault is DATA_LOSS, without the file's name.
  using HeaderOf = std::function<absl::StatusOr<v1::EntryHeader>(uint64_t version)>;
  std::function<absl::StatusOr<uint64_t>(const std::string& text, const std::string& history_key,
                                         const HeaderOf& header)>
      check_receipts;
};

struct CheckedSite {
  SiteIndex index;
  v1::Genesis genesis;
  uint64_t headers = 0;   // whose place, signature and arithmetic were checked
  uint64_t payloads = 0;  // whose bytes were checked
  uint64_t first = 0;     // the first and last version whose state was derived and confirmed
  uint64_t last = 0;
  uint64_t states = 0;      // how many: last - first + 1, or 0
  uint64_t all_states = 0;  // of the run so far, with version 0
  // The state of the newest version was derived, and no header and no seal names its digest.
  bool last_unsaid = false;
  // index.html is the page that this release makes of story.json. If false, another release has
  // written the site, and its page was not compared.
  bool page_compared = false;
  std::optional<Digest> state_digest;  // of the last derived state
  uint64_t receipts = 0;
  uint64_t files = 0;  // whose SHA-256 was checked
  uint64_t bytes = 0;  // that were read
};

// Fails with DATA_LOSS if a check fails; the message names the entry, where there is one, and the
// file. A file that run.json names and that is missing is such a failure. Fails with NOT_FOUND if
// there is no site, that is, no run.json, or if `from` and `to` are no versions of it; with
// PERMISSION_DENIED if its history key is not the caller's; with RESOURCE_EXHAUSTED if the state
// does not fit; and with the errors of Site.
absl::StatusOr<CheckedSite> CheckSite(Files& files, Site& site, const CheckOrder& order);

}  // namespace atolld
