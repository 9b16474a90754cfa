// The coordinator's SQLite store, killed at every transaction of a run: what a machine that crashed
// there finds.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/coordinator/sqlite_store.h"
#include "daemon/coordinator/store.h"
#include "daemon/env/posix_files.h"
#include "gtest/gtest.h"
#include "tests/sim/crash_enumeration.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

namespace fs = std::filesystem;

constexpr char kDatabase[] = "/coordinator.db";
constexpr char kLog[] = "/coordinator.db-wal";

template <typename Message>
void Add(const Message& message, std::string* bytes) {
  const std::string own = message.SerializeAsString();
  *bytes += std::to_string(own.size()) + ":" + own;
}

// The bytes are equal for equal runs.
std::string Bytes(StoredRun run) {
  std::string bytes = std::to_string(run.epoch) + (run.started ? " started " : " ");
  if (run.spec) Add(*run.spec, &bytes);
  if (run.genesis) Add(*run.genesis, &bytes);
  for (const auto& header : run.headers) Add(header, &bytes);
  for (const auto& round : run.rounds) Add(round, &bytes);
  for (const auto& evaluation : run.evaluations) Add(evaluation, &bytes);
  if (run.seal) Add(*run.seal, &bytes);
  bytes += " checkpoint " + std::to_string(run.checkpoint.version) + run.checkpoint.digests +
           run.checkpoint.proof;
  bytes += " next " + std::to_string(run.leases.next);
  for (const LeaseRecord& range : run.leases.ranges) {
    bytes +=
        " " + range.holder + ":" + std::to_string(range.first) + "+" + std::to_string(range.count);
  }
  std::sort(run.members.begin(), run.members.end(),
            [](const MemberRecord& a, const MemberRecord& b) { return a.peer < b.peer; });
  for (const MemberRecord& member : run.members) {
    bytes += " " + member.peer + "@" + member.address + "=" + member.state;
  }
  return bytes;
}

std::unique_ptr<Store> Open(const std::string& directory) {
  PosixFiles files;
  auto store = SqliteStore::Open(files, directory);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? std::move(*store) : nullptr;
}

std::string Loaded(Store* store) {
  if (store == nullptr) return "not opened";
  absl::StatusOr<StoredRun> run = store->Load();
  if (run.ok()) run->headers = *store->ReadHeaders(0, 1000);
  return run.ok() ? Bytes(*run) : run.status().ToString();
}

// Copies the files as a crash leaves them: database and write-ahead log, the log cut to
// `log_bytes`.
void CopyAsCrashed(const std::string& from, const std::string& to, uint64_t log_bytes) {
  fs::copy_file(from + kDatabase, to + kDatabase);
  if (!fs::exists(from + kLog)) return;
  fs::copy_file(from + kLog, to + kLog);
  fs::resize_file(to + kLog, std::min<uint64_t>(log_bytes, fs::file_size(to + kLog)));
}

uint64_t LogBytes(const std::string& directory) {
  return fs::exists(directory + kLog) ? fs::file_size(directory + kLog) : 0;
}

// The updates that a run applies, and what is stored after each of them.
struct Trace {
  std::vector<RunUpdate> updates;
  std::vector<std::string> stored;  // one more: before the first
};

Trace MakeTrace() {
  Trace trace;
  trace.updates = StoreTrace(DrawCrashScenario(0));
  MemoryStore memory(std::make_shared<MemoryStore::Disk>());
  trace.stored.push_back(Loaded(&memory));
  for (const RunUpdate& update : trace.updates) {
    EXPECT_TRUE(memory.Apply(update).ok());
    trace.stored.push_back(Loaded(&memory));
  }
  return trace;
}

// Would break: a coordinator killed right after a transaction has forgotten it, or cannot continue
// from it.
TEST(StoreCrash, AfterEveryTransactionAllIsThere) {
  const Trace trace = MakeTrace();
  ASSERT_GE(trace.updates.size(), 15u);
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = Open(directory.path());
  for (size_t i = 0; i < trace.updates.size(); ++i) {
    ASSERT_TRUE(store->Apply(trace.updates[i]).ok());
    const TemporaryDirectory crashed;
    CopyAsCrashed(directory.path(), crashed.path(), LogBytes(directory.path()));
    const std::unique_ptr<Store> next = Open(crashed.path());
    ASSERT_EQ(Loaded(next.get()), trace.stored[i + 1]) << "after transaction " << i + 1;
    for (size_t later = i + 1; later < trace.updates.size(); ++later) {
      ASSERT_TRUE(next->Apply(trace.updates[later]).ok());
    }
    ASSERT_EQ(Loaded(next.get()), trace.stored.back()) << "going on from " << i + 1;
  }
}

// Would break: half of a commit remains after a power cut.
TEST(StoreCrash, WithinATransactionAllOfItOrNothing) {
  const Trace trace = MakeTrace();
  const TemporaryDirectory directory;
  const std::unique_ptr<Store> store = Open(directory.path());
  uint64_t cuts = 0;
  for (size_t i = 0; i < trace.updates.size(); ++i) {
    const uint64_t before = LogBytes(directory.path());
    ASSERT_TRUE(store->Apply(trace.updates[i]).ok());
    const uint64_t after = LogBytes(directory.path());
    // A log that began anew would leave nothing to cut here.
    ASSERT_GT(after, before);
    for (const uint64_t part : {1, 3, 5, 7}) {
      const uint64_t cut = before + (after - before) * part / 8;
      const TemporaryDirectory crashed;
      CopyAsCrashed(directory.path(), crashed.path(), cut);
      const std::unique_ptr<Store> next = Open(crashed.path());
      ASSERT_EQ(Loaded(next.get()), trace.stored[i]) << "in transaction " << i + 1 << " at " << cut;
      ++cuts;
    }
  }
  EXPECT_EQ(cuts, 4 * trace.updates.size());
}

}  // namespace
}  // namespace atolld
