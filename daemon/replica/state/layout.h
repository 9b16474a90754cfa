// Where a replica's files lie under its directory.
//
//   genesis                          what the run is, in one record
//   seal                             how it ended, in one record
//   log/headers                      one record a committed entry, oldest first
//   log/NNNNNNNNNNNN.payload         the payload of entry N (the newest may be prepared only)
//   snapshots/NNNNNNNNNNNN           the whole state of version N
//   snapshots/NNNNNNNNNNNN.corrupt   one that could not be read, put aside
//   fetch/                           a snapshot that is on its way here
//   files/ROLE/NAME                  the run's small files (RunSpec.files), for its worker and for
//                                    peers that lack them
//
// Any thread. Paths are pure functions; what lists, removes or renames files blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
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
std::string RunFilePath(const std::string& dir, const v1::RunFile& file);  // it is checked

// The directory that a path's name stands in.
std::string DirectoryOf(const std::string& path);

// The versions whose payloads or snapshots are there, ascending. Other names are passed over; a
// directory that does not exist holds none.
absl::StatusOr<std::vector<uint64_t>> ListPayloads(Files& files, const std::string& dir);
absl::StatusOr<std::vector<uint64_t>> ListSnapshots(Files& files, const std::string& dir);
absl::StatusOr<std::vector<uint64_t>> ListDamagedSnapshots(Files& files, const std::string& dir);

// Removes what a crash left half written in `directory`: names that end in ".tmp".
absl::Status RemoveTemporaries(Files& files, const std::string& directory);

// Removes a replica: the genesis first, so that what a crash leaves of the rest is no replica.
absl::Status RemoveReplica(Files& files, const std::string& dir);

// What a repair puts out of the way, so that Replica::Open does not find it again. Nothing of it is
// lost: names get ".corrupt" at their end. Nobody else may use the directory meanwhile.
//
// Snapshots newer than `version`: what they led to was wrong.
absl::Status SetSnapshotsAside(Files& files, const std::string& dir, uint64_t version);
// The whole log: the replica goes on from its newest snapshot and fetches what came after.
absl::Status SetLogAside(Files& files, const std::string& dir);

}  // namespace atolld
