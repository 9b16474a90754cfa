// Donors and a joiner in a simulated network, for the tests of the fetches.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compression/base/check.h"
#include "daemon/replica/transfer/transfer.h"
#include "membership/history/header.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"
#include "tests/unit/daemon/replica/transfer/donor_process.h"

namespace atolld {

class TransferTest : public ::testing::Test {
 protected:
  TransferTest() { world_.AddProcess("joiner"); }

  // Adds a donor at `version`, with the snapshots that the policy makes.
  void AddDonor(const std::string& name, uint64_t version, RetentionPolicy policy = {100, 1},
                Tamper tamper = nullptr, DonorSettings settings = {}) {
    SimProcess& process = world_.AddProcess(name);
    OwnedReplica replica = *CreateReplica(process.env().files, "/r", run_);
    for (uint64_t v = 1; v <= version; ++v) {
      run_.CommitTo(*replica, v);
      CHECK_OK(Replica::AdvanceSnapshots(process.env().files, "/r", policy, v));
    }
    digest_ = replica->StateDigest();
    donors_.push_back(std::make_unique<DonorProcess>(process.env(), name, tamper, settings));
  }

  Env joiner() { return world_.process("joiner").env(); }

  FetchSource Source(std::vector<std::string> names) {
    for (std::string& name : names) name += ":1";
    const ChunkGrid grid(run_.elements, run_.chunk_elements);
    const uint64_t limit = MaxPayloadBytes(grid, **FindCodec(run_.codec));
    FetchSource source{"test-run", std::move(names), absl::Seconds(5), limit, Genesis().spec()};
    source.on_failed = [this](const std::string& donor) { failed_.insert(donor); };
    return source;
  }

  // Returns a replica of the same run at version 0, on the joiner's disk.
  OwnedReplica JoinerReplica() { return *CreateReplica(joiner().files, "/r", run_); }

  // Returns the run's headers first..last, which a coordinator would confirm.
  std::vector<v1::EntryHeader> Headers(uint64_t first, uint64_t last) {
    SimDisk disk;
    SimFiles files(disk);
    OwnedReplica replica = *CreateReplica(files, "/r", run_);
    run_.CommitTo(*replica, last);
    std::vector<v1::EntryHeader> headers;
    for (uint64_t v = first; v <= last; ++v) headers.push_back(replica->ReadEntry(v)->header);
    return headers;
  }

  // Fetches and commits entries up to `last`.
  absl::Status FetchEntries(Replica& replica, uint64_t last, std::vector<std::string> names) {
    std::optional<absl::Status> result;
    EntryFetch fetch(joiner(), Source(std::move(names)), Headers(replica.version() + 1, last),
                     {[&](Entry entry, Task next) {
                        CHECK_OK(replica.Commit(entry.header, &entry.payload, {}));
                        next();
                      },
                      [&](absl::Status status) { result = status; }});
    CHECK(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(10)));
    return *result;
  }

  absl::StatusOr<std::vector<ChainLink>> FetchChain(uint64_t first, uint64_t last,
                                                    std::vector<std::string> names) {
    std::optional<absl::StatusOr<std::vector<ChainLink>>> result;
    ChainFetch fetch(joiner(), Source(std::move(names)), first, last,
                     HeaderDigest(Headers(last, last)[0]),
                     [&](absl::StatusOr<std::vector<ChainLink>> links) { result = links; });
    CHECK(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(10)));
    return *result;
  }

  v1::Genesis Genesis() {
    SimDisk disk;
    SimFiles files(disk);
    return (*CreateReplica(files, "/r", run_))->genesis();
  }

  SnapshotFetch::Events SnapshotEvents(std::function<void(absl::Status)> done) {
    SnapshotFetch::Events events;
    events.confirm = [this](const v1::SnapshotInfo& info,
                            const std::function<void(absl::Status)>& verdict) {
      verdict(confirm_ ? confirm_(info) : absl::OkStatus());
    };
    events.on_progress = [this](uint64_t bytes, uint64_t total) {
      EXPECT_GE(bytes, progress_);
      EXPECT_LE(bytes, total);
      progress_ = bytes;
    };
    events.on_done = [this, done = std::move(done)](absl::StatusOr<FetchedSnapshot> fetched) {
      if (fetched.ok()) fetched_ = *fetched;
      done(fetched.status());
    };
    return events;
  }

  absl::Status FetchSnapshot(std::vector<std::string> names, std::vector<uint64_t> wanted = {}) {
    std::optional<absl::Status> result;
    SnapshotFetch fetch(joiner(), Source(std::move(names)), "/r", Genesis(), std::move(wanted),
                        SnapshotEvents([&](absl::Status status) { result = status; }));
    CHECK(world_.RunUntil([&] { return result.has_value(); }, absl::Minutes(10)));
    return *result;
  }

  void UseLargeState() {
    run_.elements = 1500000;  // six blocks in a buffer
    run_.chunk_elements = 65536;
  }

  TestRun run_;
  SimWorld world_{7};
  std::vector<std::unique_ptr<DonorProcess>> donors_;
  std::set<std::string> failed_;  // the donors of Source that were left because of a failed call
  Digest digest_;
  uint64_t progress_ = 0;
  FetchedSnapshot fetched_;
  std::function<absl::Status(const v1::SnapshotInfo&)> confirm_;
};

}  // namespace atolld
