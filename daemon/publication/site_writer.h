// SiteWriter: publishes what a replica's folder holds as a site, which is a folder of static files
// (site_index.h).
//
// It only reads the replica's folder, so it may run beside a replica that works there. What it
// copies it checks: the chain and the signatures of all headers, and each payload against its
// header. It does not replay the entries; CheckSite does that. It writes into a new folder
// OUT.partial-XXXXXX beside OUT, which a process that is killed leaves there, and deletes nothing
// that it has not made. The functions block, and may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/publication/run_story.h"
#include "daemon/publication/site_index.h"

namespace atolld {

struct SitePlan;

struct PublishOrder {
  std::string replica;  // the folder of a replica
  std::string out;      // the folder to write
  std::string name;     // what people call the run
  std::string software;
  bool parameters = true;  // if false, the site has neither a state nor payloads
  std::string receipts;    // the text of receipts.json; if empty, the site has none
  CoordinatorWord told;    // what only the coordinator knew
  // Called with the plan of what will be written, before anything is. The run may have gone on
  // since PlanSite. An error ends the writing.
  std::function<absl::Status(const SitePlan& plan)> allow;
};

// What a site will hold.
struct SitePlan {
  v1::Genesis genesis;
  uint64_t version = 0;
  uint64_t first_header = 1;
  uint64_t base = 0;  // the version of the oldest snapshot
  bool sealed = false;
  uint64_t header_bytes = 0;
  uint64_t state_bytes = 0;    // 0 without parameters
  uint64_t payload_bytes = 0;  // 0 without parameters
  // The entries with a mean that was taken over the update of a single contributor.
  uint64_t lone_means = 0;

  // About how many bytes the site takes, with the page and the tables.
  uint64_t bytes() const;
};

// Looks at the folder. Fails with NOT_FOUND or DATA_LOSS if it holds no replica, or none that can
// be read.
absl::StatusOr<SitePlan> PlanSite(Files& files, const PublishOrder& order);

// Writes the site. `out` must not exist, or must be an empty folder; it appears only when it is
// complete. Fails with ALREADY_EXISTS if it holds anything; with DATA_LOSS if the replica's log is
// faulty, in which case the message names the entry and the file; with INVALID_ARGUMENT if a name
// or a text is longer than a site may have; with the errors of `allow` and of Files. After an error
// nothing is left beside `out`.
using OnPublished = std::function<void(uint64_t done, uint64_t all)>;  // in bytes
absl::StatusOr<SiteIndex> WriteSite(Files& files, const PublishOrder& order,
                                    const OnPublished& progress);

// Fails with ALREADY_EXISTS if the folder exists and is not empty.
absl::Status CheckFreePlace(Files& files, const std::string& out);

}  // namespace atolld
