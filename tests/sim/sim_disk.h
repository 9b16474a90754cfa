// A simulated disk: what was synced survives a crash, what was not is lost, kept or torn, and it
// fails where the test says so.
//
// A file's bytes are durable after WritableFile::Sync; its name (creation, rename, removal) after
// SyncDirectory of its directory. A rename is atomic: a crash keeps it or undoes it, never half.
// Directories themselves are durable at once. A disk outlives the lives of its process; handles of
// a former life fail with UNAVAILABLE. Every change has a number, from 1 on, and may be the one at
// which the process dies.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/env/env.h"
#include "tests/sim/sim_events.h"

namespace atolld {

// One change of a disk. An opening that finds its file, to append to it, is none.
struct SimWrite {
  enum class Kind { kCreate, kAppend, kSync, kRename, kRemove, kTruncate, kMkdir, kSyncDirectory };
  uint64_t number;
  Kind kind;
  std::string path;  // of a rename: the new name
};

class SimDisk {
 public:
  // What a crash leaves of that which was not durable.
  enum class Crash {
    kLoseUnsynced,  // nothing
    kKeepUnsynced,  // all
    kLoseBytes,     // all names, but no bytes: a file made and not synced is there, and empty
    kTornLast,      // all bytes but an end of the last append, if that was not synced, and a random
                    // part of the names
    kDrawn,         // one of the above, drawn at each crash
  };
  void CrashNow(Crash crash);

  void Wipe();                                             // an empty disk
  void SetCapacity(uint64_t bytes) { capacity_ = bytes; }  // more: RESOURCE_EXHAUSTED
  uint64_t used() const { return used_; }                  // by files that have a name
  uint64_t writes() const { return writes_; }              // changes of any kind so far

  // Flips one bit of a live and durable file; false if there is no such byte.
  bool FlipBit(const std::string& path, uint64_t offset, int bit);

  // Faults, drawn from the disk's own numbers. Each stays until it is set anew or EndFaults.
  void SeedFaults(uint64_t seed) { random_ = SimRandom(seed); }
  // A creation, append or rename fails thus; a failed append may have written a part. The status
  // gets the path: RESOURCE_EXHAUSTED for a full disk, UNKNOWN for a broken one.
  void FailWrites(double probability, absl::Status status);
  void FailNextWrites(uint64_t count, absl::Status status);
  void FailReads(double probability, absl::Status status);
  // The disk keeps what it has; only the reader is told wrong.
  void FlipBitOnRead(double probability) { flip_probability_ = probability; }
  // As a failed fsync in production, ends the process at that instant, the sync undone.
  void FailSyncs(double probability) { sync_probability_ = probability; }
  // Work on the pool that syncs is done later by so much a sync.
  void SlowSync(absl::Duration least, absl::Duration most);
  void EndFaults();  // all of these, and a capacity

  // The process dies at its `count`-th change from now (1: the next). kLoseUnsynced: the change is
  // not made; otherwise it is made, and then suffers the crash. The interrupted call gets
  // UNAVAILABLE. The latest request counts; 0 cancels it.
  void CrashAtWrite(uint64_t count, Crash crash);
  // Called before each change, of this life and later ones. It must not use the disk.
  void OnWrite(std::function<void(const SimWrite&)> callback) { on_write_ = std::move(callback); }
  // Called when the disk has ended a life by itself, after the crash.
  void OnDeath(std::function<void()> callback) { on_death_ = std::move(callback); }

  // How long the syncs since the last call are to take.
  absl::Duration TakeDelay();
  // Changes whenever handles die.
  uint64_t life() const { return life_; }

 private:
  friend class SimFiles;
  friend class SimReadableFile;
  friend class SimWritableFile;

  struct Inode {
    std::string bytes;
    size_t synced = 0;  // so many of them are durable, unless `shadow` is
    std::unique_ptr<const std::string> shadow;
    bool named = false;
    void KeepDurable(size_t size);  // before `bytes` shrink to `size`
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  // A change of names that no SyncDirectory has made durable: `removed` goes, `added` comes.
  struct NameChange {
    std::string removed;
    std::string added;
    std::shared_ptr<Inode> inode;
  };

  // Counts a change and makes it, unless a fault or the end of the process comes between.
  absl::Status Change(SimWrite::Kind kind, const std::string& path, uint64_t life,
                      absl::FunctionRef<absl::Status()> make);
  absl::Status DrawWriteFault(SimWrite::Kind kind, const std::string& path);
  void Die(Crash crash);
  absl::Status CheckLife(uint64_t life, const std::string& path) const;

  std::shared_ptr<Inode> FileAt(const std::string& path);  // makes it
  void Unname(const std::string& path);
  void Name(const std::string& path, std::shared_ptr<Inode> inode);
  void Resize(Inode& inode, size_t size);
  absl::Status Append(Inode& inode, const std::string& path, absl::string_view bytes);
  void Sync(Inode& inode);
  void SyncNames(const std::string& directory);
  void ApplyDurably(const NameChange& change);
  void TearLastAppend();

  uint64_t capacity_ = UINT64_MAX;
  uint64_t life_ = 0;
  uint64_t writes_ = 0;
  uint64_t used_ = 0;
  Names names_;
  Names durable_names_;
  std::vector<NameChange> name_changes_;
  std::weak_ptr<Inode> last_append_;
  size_t last_append_start_ = 0;
  std::set<std::string> directories_ = {"/"};

  SimRandom random_ = SimRandom(1);
  double write_probability_ = 0;
  uint64_t failing_writes_ = 0;
  absl::Status write_status_;
  double read_probability_ = 0;
  absl::Status read_status_;
  double flip_probability_ = 0;
  double sync_probability_ = 0;
  absl::Duration sync_least_;
  absl::Duration sync_most_;
  absl::Duration delay_;
  uint64_t crash_at_ = 0;
  Crash crash_ = Crash::kLoseUnsynced;
  std::function<void(const SimWrite&)> on_write_;
  std::function<void()> on_death_;
};

std::string SimParentOf(const std::string& path);

// One life's view of a simulated disk, as Files.
class SimFiles final : public Files {
 public:
  explicit SimFiles(SimDisk& disk) : disk_(disk), life_(disk.life_) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  // The simulated machine has one user.
  absl::StatusOr<std::unique_ptr<WritableFile>> CreatePrivate(const std::string& path) override {
    return Create(path);
  }
  absl::StatusOr<bool> IsPrivate(const std::string& /*path*/) override { return true; }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Truncate(const std::string& path, uint64_t size) override;
  absl::Status MakeDirectories(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& directory) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override;
  bool Exists(const std::string& path) override;

 private:
  absl::Status CheckParent(const std::string& path) const;
  absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path, bool empty);

  SimDisk& disk_;
  const uint64_t life_;
};

}  // namespace atolld
