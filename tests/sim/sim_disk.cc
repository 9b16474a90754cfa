#include "tests/sim/sim_disk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "tests/sim/sim_files.h"

namespace atolld {

void SimDisk::Inode::KeepDurable(size_t size) {
  if (shadow != nullptr || size >= synced) return;
  shadow = std::make_unique<const std::string>(bytes.substr(0, synced));
}

absl::Status SimDisk::CheckLife(uint64_t life, const std::string& path) const {
  if (life == life_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": process is dead"));
}

absl::Status SimDisk::Change(SimWrite::Kind kind, const std::string& path, uint64_t life,
                             absl::FunctionRef<absl::Status()> make) {
  RETURN_IF_ERROR(CheckLife(life, path));
  ++writes_;
  if (on_write_) on_write_({writes_, kind, path});
  if (writes_ == crash_at_) {
    crash_at_ = 0;
    // Nobody hears how it went.
    if (crash_ != Crash::kLoseUnsynced) make().IgnoreError();
    Die(crash_);
  } else if (kind == SimWrite::Kind::kSync || kind == SimWrite::Kind::kSyncDirectory) {
    if (sync_most_ > absl::ZeroDuration()) delay_ += random_.Between(sync_least_, sync_most_);
    if (random_.Chance(sync_probability_)) Die(Crash::kLoseUnsynced);
  }
  RETURN_IF_ERROR(CheckLife(life, path));
  RETURN_IF_ERROR(DrawWriteFault(kind, path));
  return make();
}

absl::Status SimDisk::DrawWriteFault(SimWrite::Kind kind, const std::string& path) {
  using Kind = SimWrite::Kind;
  if (kind != Kind::kCreate && kind != Kind::kAppend && kind != Kind::kRename) {
    return absl::OkStatus();
  }
  if (failing_writes_ != 0) {
    --failing_writes_;
  } else if (!random_.Chance(write_probability_)) {
    return absl::OkStatus();
  }
  return Annotate(write_status_, path);
}

void SimDisk::Die(Crash crash) {
  CrashNow(crash);
  if (on_death_) on_death_();
}

void SimDisk::CrashNow(Crash crash) {
  ++life_;
  crash_at_ = 0;
  delay_ = absl::ZeroDuration();
  if (crash == Crash::kDrawn) {
    constexpr Crash kAll[] = {Crash::kLoseUnsynced, Crash::kKeepUnsynced, Crash::kLoseBytes,
                              Crash::kTornLast};
    crash = kAll[random_.Below(4)];
  }
  if (crash == Crash::kTornLast) {
    for (const NameChange& change : name_changes_) {
      if (random_.Chance(0.5)) ApplyDurably(change);
    }
    TearLastAppend();
  } else if (crash != Crash::kLoseUnsynced) {
    durable_names_ = names_;
  }
  const bool keep_bytes = crash == Crash::kKeepUnsynced || crash == Crash::kTornLast;
  name_changes_.clear();
  last_append_.reset();
  for (auto& [name, inode] : names_) inode->named = false;
  names_ = durable_names_;
  used_ = 0;
  for (auto& [name, inode] : names_) {
    if (!keep_bytes) {
      if (inode->shadow != nullptr) inode->bytes = *inode->shadow;
      if (inode->shadow == nullptr) inode->bytes.resize(inode->synced);
    }
    inode->shadow = nullptr;
    inode->synced = inode->bytes.size();
    inode->named = true;
    used_ += inode->bytes.size();
  }
}

// The last bytes that were on their way when the power went.
void SimDisk::TearLastAppend() {
  const std::shared_ptr<Inode> inode = last_append_.lock();
  if (inode == nullptr || inode->bytes.size() <= last_append_start_) return;
  const size_t written = inode->bytes.size() - last_append_start_;
  inode->bytes.resize(last_append_start_ + random_.Below(written));
}

void SimDisk::Wipe() {
  ++life_;
  for (auto& [name, inode] : names_) inode->named = false;
  names_.clear();
  durable_names_.clear();
  name_changes_.clear();
  used_ = 0;
  directories_ = {"/"};
}

bool SimDisk::FlipBit(const std::string& path, uint64_t offset, int bit) {
  const auto found = names_.find(path);
  if (found == names_.end() || offset >= found->second->bytes.size()) return false;
  const char mask = static_cast<char>(1 << bit);
  Inode& inode = *found->second;
  inode.bytes[offset] = static_cast<char>(inode.bytes[offset] ^ mask);
  if (inode.shadow != nullptr && offset < inode.shadow->size()) {
    std::string durable = *inode.shadow;
    durable[offset] = static_cast<char>(durable[offset] ^ mask);
    inode.shadow = std::make_unique<const std::string>(std::move(durable));
  }
  return true;
}

void SimDisk::FailWrites(double probability, absl::Status status) {
  write_probability_ = probability;
  write_status_ = std::move(status);
}

void SimDisk::FailNextWrites(uint64_t count, absl::Status status) {
  failing_writes_ = count;
  write_status_ = std::move(status);
}

void SimDisk::FailReads(double probability, absl::Status status) {
  read_probability_ = probability;
  read_status_ = std::move(status);
}

void SimDisk::SlowSync(absl::Duration least, absl::Duration most) {
  sync_least_ = least;
  sync_most_ = most;
}

void SimDisk::EndFaults() {
  capacity_ = UINT64_MAX;
  write_probability_ = read_probability_ = flip_probability_ = sync_probability_ = 0;
  failing_writes_ = 0;
  crash_at_ = 0;
  SlowSync(absl::ZeroDuration(), absl::ZeroDuration());
}

void SimDisk::CrashAtWrite(uint64_t count, Crash crash) {
  crash_at_ = count == 0 ? 0 : writes_ + count;
  crash_ = crash;
}

absl::Duration SimDisk::TakeDelay() { return std::exchange(delay_, absl::ZeroDuration()); }

std::shared_ptr<SimDisk::Inode> SimDisk::FileAt(const std::string& path) {
  const auto found = names_.find(path);
  if (found != names_.end()) return found->second;
  auto inode = std::make_shared<Inode>();
  Name(path, inode);
  name_changes_.push_back({"", path, inode});
  return inode;
}

void SimDisk::Name(const std::string& path, std::shared_ptr<Inode> inode) {
  Unname(path);
  inode->named = true;
  used_ += inode->bytes.size();
  names_[path] = std::move(inode);
}

void SimDisk::Unname(const std::string& path) {
  auto node = names_.extract(path);
  if (node.empty()) return;
  node.mapped()->named = false;
  used_ -= node.mapped()->bytes.size();
}

void SimDisk::Resize(Inode& inode, size_t size) {
  inode.KeepDurable(size);
  if (inode.named) used_ += size - inode.bytes.size();  // wraps back where it shrinks
  inode.bytes.resize(size);
}

absl::Status SimDisk::Append(Inode& inode, const std::string& path, absl::string_view bytes) {
  const uint64_t room = capacity_ - std::min(capacity_, used_);
  // A full disk takes what fits: the caller finds half a record there.
  const absl::string_view fits = bytes.substr(0, static_cast<size_t>(room));
  inode.bytes.append(fits.data(), fits.size());
  if (inode.named) used_ += fits.size();
  if (fits.size() == bytes.size()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(path, ": no space left on device"));
}

void SimDisk::Sync(Inode& inode) {
  inode.shadow = nullptr;
  inode.synced = inode.bytes.size();
  if (last_append_.lock().get() == &inode) last_append_.reset();
}

// A rename between two directories stands once either is synced, as in a journal.
void SimDisk::SyncNames(const std::string& directory) {
  std::vector<NameChange> rest;
  for (NameChange& change : name_changes_) {
    const bool here = (!change.added.empty() && SimParentOf(change.added) == directory) ||
                      (!change.removed.empty() && SimParentOf(change.removed) == directory);
    if (here) {
      ApplyDurably(change);
    } else {
      rest.push_back(std::move(change));
    }
  }
  name_changes_ = std::move(rest);
}

void SimDisk::ApplyDurably(const NameChange& change) {
  if (!change.removed.empty()) durable_names_.erase(change.removed);
  if (!change.added.empty()) durable_names_[change.added] = change.inode;
}

}  // namespace atolld
