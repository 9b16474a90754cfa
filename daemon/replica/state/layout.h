// The paths of a replica's files under its directory.
//
//   genesis                          the definition of the run, in one record
//   seal                             the end of the run, in one record
//   log/headers                      one record for each committed entry, oldest first
//   log/NNNNNNNNNNNN.payload         the payload of entry N (the newest may be prepared only)
//   snapshots/NNNNNNNNNNNN           the whole state of version N
//   snapshots/NNNNNNNNNNNN.corrupt   a snapshot that could not be read and was set aside
//   fetch/                           a snapshot that is being fetched
//   files/ROLE/NAME                  the run's small files (RunSpec.files), for its worker and for
//                                    peers that lack them
//
// All functions may be called from any thread. Those that return paths are pure; those that list,
// remove or rename files block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/env/env.h"

namespace atolld {

std::string GenesisPath(const std::string& dir);
std::string SealPath(const std::string& dir);
std::string LogDirectory(const std::string& dir);
std::string HeadersPath(const std::string& dir);
std::string PayloadPath(const std::string& dir, uint64_t version);
std::string SnapshotsDirectory(const std::string& dir);
std::string SnapshotPath(const std::string& dir, uint64_t version);
std::string DamagedSnapshotPath(const std::string& dir, uint64_t version);
std::string FetchDirectory(const std::string& dir);
// Returns the path of one of the run's small files. `file` must have been checked.
std::string RunFilePath(const std::string& dir, const v1::RunFile& file);

// These functions return the versions of the payloads or snapshots in the directory, in ascending
// order. Other names are ignored; a directory that does not exist counts as empty.
absl::StatusOr<std::vector<uint64_t>> ListPayloads(Files& files, const std::string& dir);
absl::StatusOr<std::vector<uint64_t>> ListSnapshots(Files& files, const std::string& dir);
absl::StatusOr<std::vector<uint64_t>> ListDamagedSnapshots(Files& files, const std::string& dir);

// Removes the files in `directory` that a crash left half written, which are those whose names end
// in ".tmp".
absl::Status RemoveTemporaries(Files& files, const std::string& directory);

// Removes a replica. The genesis is removed first, so that files which remain after a crash do not
// count as a replica.
absl::Status RemoveReplica(Files& files, const std::string& dir);

// The following functions set files aside for a repair, so that Replica::Open does not find them
// again. They lose no data: they only append ".corrupt" to the names. No other code may use the
// directory meanwhile.
//
// Sets aside the snapshots newer than `version`, which led to a wrong state.
absl::Status SetSnapshotsAside(Files& files, const std::string& dir, uint64_t version);
// Sets aside the whole log. The replica then continues from its newest snapshot and fetches the
// later entries.
absl::Status SetLogAside(Files& files, const std::string& dir);

// -----------------------------------------------------------------------------------------------

// Steadily: runs a function that reads a replica's directory while the replica may work in it, and
// runs it again if the replica has dropped files that the function needed.
//
// Because of the replica's work it fails only if the directory changes during every attempt. It
// blocks and may be called from any thread.

// The largest number of attempts.
inline constexpr int kSteadyAttempts = 16;

// Values that change whenever a live replica drops or adds a file that a reader may have missed.
// The size of the headers' file alone is not enough: if one header is dropped and one is added, the
// size may be the same as before.
struct Footprint {
  std::vector<uint64_t> snapshots;
  std::vector<uint64_t> payloads;
  uint64_t header_bytes = 0;
  bool operator==(const Footprint& other) const {
    return snapshots == other.snapshots && payloads == other.payloads &&
           header_bytes == other.header_bytes;
  }
};

absl::StatusOr<Footprint> FootprintOf(Files& files, const std::string& dir);

// Runs `look`, which returns a StatusOr, and repeats it while it fails and the directory has
// changed meanwhile.
template <typename Look>
auto Steadily(Files& files, const std::string& dir, Look look) -> decltype(look()) {
  for (int attempt = 1;; ++attempt) {
    ASSIGN_OR_RETURN(const Footprint before, FootprintOf(files, dir));
    auto result = look();
    const bool moved = absl::IsDataLoss(result.status()) || absl::IsNotFound(result.status());
    if (!moved || attempt == kSteadyAttempts) return result;
    ASSIGN_OR_RETURN(const Footprint after, FootprintOf(files, dir));
    if (after == before) return result;
  }
}

}  // namespace atolld
