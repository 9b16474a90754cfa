// A simulated disk. Synced data survives a crash; unsynced data is lost, kept or torn. Operations
// fail when the test says so.
//
// A file's bytes are durable after WritableFile::Sync. Its name (creation, rename, removal) is
// durable after SyncDirectory of its directory. A rename is atomic: a crash keeps it or undoes it
// as a whole. Directories themselves are durable at once. The disk remains when its process is
// restarted; handles of a former life fail with UNAVAILABLE. Changes are numbered from 1, and a
// test can make the process die at any of them.
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

// One change of a disk. Opening an existing file for appending is not a change.
struct SimWrite {
  enum class Kind { kCreate, kAppend, kSync, kRename, kRemove, kTruncate, kMkdir, kSyncDirectory };
  uint64_t number;
  Kind kind;
  std::string path;  // for a rename, the new name
};

class SimDisk {
 public:
  // How much of the data that was not durable is left after a crash.
  enum class Crash {
    kLoseUnsynced,  // nothing
    kKeepUnsynced,  // everything
    kLoseBytes,     // all names but no bytes: a file that was created and not synced exists, and is
                    // empty
    // All bytes except the last part of the last append, if that was not synced, and a random part
    // of the names.
    kTornLast,
    kDrawn,  // one of the above, drawn at each crash
  };
  void CrashNow(Crash crash);

  // Empties the disk, except for the files `but`, whose bytes are durable then.
  void Wipe(const std::set<std::string>& but = {});
  // Sets the size of the disk, beyond which writes fail with RESOURCE_EXHAUSTED.
  void SetCapacity(uint64_t bytes) { capacity_ = bytes; }
  uint64_t used() const { return used_; }      // by files that have a name
  uint64_t writes() const { return writes_; }  // changes of any kind so far

  // Flips one bit of an existing, durable file; returns false if there is no such byte.
  bool FlipBit(const std::string& path, uint64_t offset, int bit);

  // Faults are drawn from the disk's own random numbers. Each fault stays until it is set again or
  // EndFaults is called.
  void SeedFaults(uint64_t seed) { random_ = SimRandom(seed); }
  // Makes a creation, append or rename fail with `status`, to which the path is added; a failed
  // append may have written a part. Use RESOURCE_EXHAUSTED for a full disk and UNKNOWN for a broken
  // one.
  void FailWrites(double probability, absl::Status status);
  void FailNextWrites(uint64_t count, absl::Status status);
  void FailReads(double probability, absl::Status status);
  // Flips a bit in the bytes that a reader gets. The bytes on the disk stay as they are.
  void FlipBitOnRead(double probability) { flip_probability_ = probability; }
  // A failed fsync ends the process at that instant, as in production, with the sync undone.
  void FailSyncs(double probability) { sync_probability_ = probability; }
  // Delays work on the pool that syncs, by a duration between these for each sync.
  void SlowSync(absl::Duration least, absl::Duration most);
  void EndFaults();  // Ends all these faults and the limit of capacity.

  // Makes the process die at its `count`-th change from now (1 is the next). With kLoseUnsynced the
  // change is not made; otherwise it is made, and then suffers the crash. The interrupted call gets
  // UNAVAILABLE. The latest request counts; 0 cancels it.
  void CrashAtWrite(uint64_t count, Crash crash);
  // Sets the function that is called before each change, in this life and later ones. It must not
  // use the disk.
  void OnWrite(std::function<void(const SimWrite&)> callback) { on_write_ = std::move(callback); }
  // Sets the function that is called after the crash when the disk itself has made the process die.
  void OnDeath(std::function<void()> callback) { on_death_ = std::move(callback); }

  // Returns how long the syncs since the last call of this function must take.
  absl::Duration TakeDelay();
  // A number that changes whenever handles become invalid.
  uint64_t life() const { return life_; }

 private:
  friend class SimFiles;
  friend class SimReadableFile;
  friend class SimWritableFile;

  struct Inode {
    std::string bytes;
    size_t synced = 0;  // how many of the bytes are durable, unless `shadow` is set
    std::unique_ptr<const std::string> shadow;
    bool named = false;
    void KeepDurable(size_t size);  // Called before `bytes` shrink to `size`.
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  // A change of names that no SyncDirectory has made durable yet: `removed` disappears and `added`
  // appears.
  struct NameChange {
    std::string removed;
    std::string added;
    std::shared_ptr<Inode> inode;
  };

  // Counts a change and carries it out unless a fault or the end of the process prevents it.
  absl::Status Change(SimWrite::Kind kind, const std::string& path, uint64_t life,
                      absl::FunctionRef<absl::Status()> make);
  absl::Status DrawWriteFault(SimWrite::Kind kind, const std::string& path);
  void Die(Crash crash);
  absl::Status CheckLife(uint64_t life, const std::string& path) const;

  std::shared_ptr<Inode> FileAt(const std::string& path);  // Creates the file if it is missing.
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

// The view of a simulated disk that one life of a process has, as a Files.
class SimFiles final : public Files {
 public:
  explicit SimFiles(SimDisk& disk) : disk_(disk), life_(disk.life_) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  // The simulated machine has only one user.
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
